; Inno Setup's recipe for an installer of the frozen program. Untried: no Windows was at hand.
;
;   py packaging\build.py frozen
;   iscc /DVersion=0.1.0 packaging\windows\gguf-explorer.iss
;
; For the user who installs it, without an administrator's rights. Other programs' associations with
; the two kinds of files stay: this one is offered in "Open with".

#ifndef Version
  #error Give the version: iscc /DVersion=0.1.0 gguf-explorer.iss
#endif

#define Name "GGUF Explorer"
#define Folder "..\..\dist\gguf-explorer"
#define Window "gguf-explorer-window.exe"
#define GgufId "GGUFExplorer.gguf"
#define SafetensorsId "GGUFExplorer.safetensors"

[Setup]
AppId={{6B0F2A8E-52F3-4C0B-9E0B-7C1F0A9D4E31}
AppName={#Name}
AppVersion={#Version}
AppPublisher=The GGUF Explorer authors
DefaultDirName={autopf}\{#Name}
DefaultGroupName={#Name}
PrivilegesRequired=lowest
PrivilegesRequiredOverridesAllowed=dialog
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
MinVersion=10.0.17763
LicenseFile=..\..\LICENSE
SetupIconFile=..\..\build\icons\gguf-explorer.ico
UninstallDisplayIcon={app}\{#Window}
OutputDir=..\..\dist
OutputBaseFilename=gguf-explorer-{#Version}-windows-setup
Compression=lzma2
SolidCompression=yes
ChangesAssociations=yes
WizardStyle=modern

[Tasks]
Name: desktopicon; Description: "{cm:CreateDesktopIcon}"; Flags: unchecked

[Files]
Source: "{#Folder}\*"; DestDir: "{app}"; Flags: ignoreversion recursesubdirs createallsubdirs

[InstallDelete]
; of an older version, whose modules must not mix with those of this one
Type: filesandordirs; Name: "{app}\_internal"

[Icons]
Name: "{group}\{#Name}"; Filename: "{app}\{#Window}"
Name: "{autodesktop}\{#Name}"; Filename: "{app}\{#Window}"; Tasks: desktopicon

[Registry]
Root: HKA; Subkey: "Software\Classes\.gguf\OpenWithProgids"; ValueType: string; ValueName: "{#GgufId}"; ValueData: ""; Flags: uninsdeletevalue
Root: HKA; Subkey: "Software\Classes\{#GgufId}"; ValueType: string; ValueData: "GGUF language model"; Flags: uninsdeletekey
Root: HKA; Subkey: "Software\Classes\{#GgufId}\DefaultIcon"; ValueType: string; ValueData: "{app}\{#Window},0"
Root: HKA; Subkey: "Software\Classes\{#GgufId}\shell\open\command"; ValueType: string; ValueData: """{app}\{#Window}"" ""%1"""
Root: HKA; Subkey: "Software\Classes\.safetensors\OpenWithProgids"; ValueType: string; ValueName: "{#SafetensorsId}"; ValueData: ""; Flags: uninsdeletevalue
Root: HKA; Subkey: "Software\Classes\{#SafetensorsId}"; ValueType: string; ValueData: "Safetensors model weights"; Flags: uninsdeletekey
Root: HKA; Subkey: "Software\Classes\{#SafetensorsId}\DefaultIcon"; ValueType: string; ValueData: "{app}\{#Window},0"
Root: HKA; Subkey: "Software\Classes\{#SafetensorsId}\shell\open\command"; ValueType: string; ValueData: """{app}\{#Window}"" ""%1"""

[Run]
Filename: "{app}\{#Window}"; Description: "{cm:LaunchProgram,{#Name}}"; Flags: nowait postinstall skipifsilent
