"""The commands as their users run them: processes of the installed wheel, on recordings of real size."""
