; Installer for Windows, for Inno Setup 6. UNTESTED: it was written without a Windows machine at hand.
; iscc /DVersion=0.2.0 packaging\windows\stallscope.iss      after packaging/freeze.sh
; It installs for one user and needs no administrator. Plain .json, .sqlite and .csv are offered under "Open with" only.

#ifndef Version
  #error Give the version: iscc /DVersion=0.2.0 ...
#endif
#define Folder "..\..\build\package\stallscope"

[Setup]
AppId={{6D2A5F0E-5B0C-4D0C-9C8B-7F2B7C1F3A55}
AppName=Stallscope
AppVersion={#Version}
AppPublisher=Stallscope contributors
DefaultDirName={autopf}\Stallscope
DefaultGroupName=Stallscope
PrivilegesRequired=lowest
PrivilegesRequiredOverridesAllowed=dialog
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
ChangesAssociations=yes
OutputDir=..\..\dist
OutputBaseFilename=stallscope-{#Version}-windows-x64
Compression=lzma2
SolidCompression=yes
LicenseFile=..\..\LICENSE
SetupIconFile=stallscope.ico
UninstallDisplayIcon={app}\Stallscope-window.exe

[Files]
Source: "{#Folder}\*"; DestDir: "{app}"; Flags: recursesubdirs ignoreversion

[Icons]
Name: "{group}\Stallscope"; Filename: "{app}\Stallscope-window.exe"

[Registry]
#define Types "Software\Classes"
Root: HKA; Subkey: "{#Types}\Stallscope.Recording"; ValueType: string; ValueData: "GPU profiler recording"; Flags: uninsdeletekey
Root: HKA; Subkey: "{#Types}\Stallscope.Recording\DefaultIcon"; ValueType: string; ValueData: "{app}\Stallscope-window.exe,0"
Root: HKA; Subkey: "{#Types}\Stallscope.Recording\shell\open\command"; ValueType: string; ValueData: """{app}\Stallscope-window.exe"" ""%1"""
; Windows knows the last suffix of a name only, so .pt.trace.json cannot be told from .json: it is offered like that.
; BEGIN file types: written by python -m viewer.desktop.file_types
Root: HKA; Subkey: "{#Types}\.ncu-rep\OpenWithProgids"; ValueType: string; ValueName: "Stallscope.Recording"; Flags: uninsdeletevalue
Root: HKA; Subkey: "{#Types}\.nsys-rep\OpenWithProgids"; ValueType: string; ValueName: "Stallscope.Recording"; Flags: uninsdeletevalue
Root: HKA; Subkey: "{#Types}\.rpd\OpenWithProgids"; ValueType: string; ValueName: "Stallscope.Recording"; Flags: uninsdeletevalue
Root: HKA; Subkey: "{#Types}\.json\OpenWithProgids"; ValueType: string; ValueName: "Stallscope.Recording"; Flags: uninsdeletevalue
Root: HKA; Subkey: "{#Types}\.sqlite\OpenWithProgids"; ValueType: string; ValueName: "Stallscope.Recording"; Flags: uninsdeletevalue
Root: HKA; Subkey: "{#Types}\.csv\OpenWithProgids"; ValueType: string; ValueName: "Stallscope.Recording"; Flags: uninsdeletevalue
Root: HKA; Subkey: "{#Types}\.gz\OpenWithProgids"; ValueType: string; ValueName: "Stallscope.Recording"; Flags: uninsdeletevalue
; END file types
Root: HKA; Subkey: "{#Types}\.stallscope"; ValueType: string; ValueData: "Stallscope.Recording"; Flags: uninsdeletevalue

[Run]
Filename: "{app}\Stallscope-window.exe"; Description: "Start Stallscope"; Flags: nowait postinstall skipifsilent
