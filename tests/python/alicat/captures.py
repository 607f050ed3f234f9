"""What real instruments sent, byte for byte but for the carriage returns."""

from __future__ import annotations


def table(text: str) -> list[bytes]:
    """The lines of a block, as the client hands them to a parser."""
    return [line.encode() for line in text.strip().splitlines()]


FORMAT_10V20 = table("""
A D00 ID_ NAME______________________ TYPE_______ WIDTH NOTES___________________
A D01 700 Unit ID                    string          1
A D02 002 Abs Press                  s decimal     7/2 010 02 PSIA
A D03 003 Flow Temp                  s decimal     7/2 002 02 `C
A D04 004 Volu Flow                  s decimal     7/2 012 02 CCM
A D05 005 Mass Flow                  s decimal     7/2 012 02 SCCM
A D06 037 Mass Flow Setpt            s decimal     7/2 012 02 SCCM
A D07 703 Gas                        string          6
A D08 701 *Error                     string          3 ADC
A D09 702 *Status                    string          3 OPL
A D10 702 *Status                    string          3 POV
A D11 702 *Status                    string          3 P2O
A D12 702 *Status                    string          3 TOV
A D13 702 *Status                    string          3 VOV
A D14 702 *Status                    string          3 MOV
A D15 702 *Status                    string          3 TMF
A D16 702 *Status                    string          3 OVR
A D17 702 *Status                    string          3 COM
A D18 702 *Status                    string          3 HLD
A D19 702 *Status                    string          3 EXH
A D20 702 *Status                    string          3 GTA
A D21 702 *Status                    string          3 LCK
""")
FRAME_10V20 = b"A +014.62 +021.89 +000.00 +000.00 +078.95     N2"

FORMAT_10V04_METER = table("""
A D00 ID_ NAME______________________ TYPE_______ WIDTH NOTES___________________
A D01 700 Unit ID                    string          1
A D02 002 Abs Press                  s decimal     7/3 010 02 PSIA
A D03 003 Flow Temp                  s decimal     7/2 002 02 `C
A D04 004 Volu Flow                  s decimal     7/3 007 02 LPM
A D05 005 Mass Flow                  s decimal     7/3 007 02 SLPM
A D06 703 Gas                        string          6
A D07 701 *Error                     string          3 ADC
A D08 702 *Status                    string          3 OPL
A D09 702 *Status                    string          3 POV
A D10 702 *Status                    string          3 P2O
A D11 702 *Status                    string          3 TOV
A D12 702 *Status                    string          3 VOV
A D13 702 *Status                    string          3 MOV
A D14 702 *Status                    string          3 TMF
A D15 702 *Status                    string          3 OVR
A D16 702 *Status                    string          3 COM
A D17 702 *Status                    string          3 HLD
A D18 702 *Status                    string          3 EXH
A D19 702 *Status                    string          3 LCK
""")
FRAME_10V04_METER = b"A +14.633 +022.97 -00.034 -00.034    Air"

FORMAT_7V09 = table("""
A D00 ID_ NAME______________________ TYPE_______ WIDTH NOTES___________________
A D01 700 Unit ID                    string          1
A D02 002 Abs Press                  s decimal     7/2 010 02 PSIA
A D03 003 Flow Temp                  s decimal     7/2 002 02 `C
A D04 004 Volu Flow                  s decimal     7/2 007 02 LPM
A D05 005 Mass Flow                  s decimal     7/2 007 02 SLPM
A D06 037 Mass Flow Setpt            decimal       6/2 007 02 SLPM
A D07 703 Gas                        string        7/7
A D08 701 *Error                     string          3 ADC
A D09 702 *Status                    string          3 LCK
""")

FORMAT_5V12 = table("""
A  D00 NAME_______ TYPE_____ MinVal_  MaxVal_  UNITS__
A  D01 Unit ID     char         A         Z         na
A  D02 Pressure    signed    +000.00  +160.00     PSIA
A  D03 Temperature signed    -010.00  +050.00        C
A  D04 Volumetric  signed    +0000.0  +0500.0      CCM
A  D05 Mass        signed    +0000.0  +0500.0     SCCM
A  D06 SetPoint    signed    +0000.0  +0500.0     SCCM
A  D07 Gas         string        Air       D2       na
A  D08 Error       string         na      ADC       na
A  D09 Status      string         na      LCK       na
A  D10 Status      string         na      OVR       na
A  D11 Status      string         na      POV       na
A  D12 Status      string         na      TOV       na
A  D13 Status      string         na      VOV       na
A  D14 Status      string         na      MOV       na
""")
FRAME_5V12 = b"A +014.52 +021.50 +0000.1 +0000.2 0116.3      N2"

MADE_10V20 = table("""
A  M00 ALICAT SCIENTIFIC
A  M01 www.alicat.com
A  M02 Ph   520-290-6060
A  M03 info@alicat.com
A  M04 Model Number MC-500SCCM-D
A  M05 Serial Number 521641
A  M06 Date Manufactured 03/02/2025
A  M07 Date Calibrated   03/02/2025
A  M08 Calibrated By     BL
A  M09 Software Revision 10v20.0-R24
""")
MADE_10V04_METER = [
    row.replace(b"MC-500SCCM-D", b"MW-10SLPM-D").replace(b"10v20.0", b"10v04.0")
    for row in MADE_10V20
]
MADE_8V17 = table("""
A  M00 ALICAT SCIENTIFIC
A  M01 www.alicat.com
A  M02 Ph   520-290-6060
A  M03 Fax  520-290-0109
A  M04 Model Number MCR-200SLPM-D
A  M05 Serial Number 225873
A  M06 Date Manufactured 01/20/2020
A  M07 Date Calibrated   01/20/2020
A  M08 Calibrated By     BL
A  M09 Software Revision 8v17.0-R23
""")
MADE_5V12 = table("""
A  M00 ALICAT SCIENTIFIC
A  M01 www.alicat.com
A  M02 Ph   520-290-6060
A  M03 Fax  520-290-0109
A  M04 Model Number  MC-500SCCM-D
A  M05 Serial Number 122161
A  M06 Date Manufactured 09/24/2015
A  M07 Date Calibrated   09/24/2015
A  M08 Calibrated By     PD
A  M09 Software Revision 5v12.0-R22
""")
VERSION_10V20 = b"A   10v20.0-R24 Jan  9 2025,15:04:07"
VERSION_8V17 = b"A   8v17.0-R23 Nov 27 2019,15:28:45"
VERSION_5V12 = b"A   5v12.0-R22 Sep 24 2015,10:00:00"
