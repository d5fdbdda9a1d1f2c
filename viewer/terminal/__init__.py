"""What the commands of the command line share: exit codes, values of options, files in and out, progress; no Qt."""
