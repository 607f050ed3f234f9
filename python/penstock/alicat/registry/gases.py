"""Gases, by the short names that data frames carry and the numbers that gas commands take.

Numbers and names are those of the maker's serial primer. An instrument lists those that it has
(``??G*``); the last twenty numbers are for mixes that users name.
"""

from __future__ import annotations

from penstock.alicat.errors import UnknownGasError
from penstock.alicat.registry.lookup import Coded, index_members

__all__ = ["Gas"]


class Gas(Coded):
    """A gas; the value is its name on the wire, ``code`` the number that gas commands take."""

    AIR = "Air", 0
    AR = "Ar", 1
    CH4 = "CH4", 2
    CO = "CO", 3
    CO2 = "CO2", 4
    C2H6 = "C2H6", 5
    H2 = "H2", 6
    HE = "He", 7
    N2 = "N2", 8
    N2O = "N2O", 9
    NE = "Ne", 10
    O2 = "O2", 11
    C3H8 = "C3H8", 12
    NC4H10 = "nC4H10", 13
    C2H2 = "C2H2", 14
    C2H4 = "C2H4", 15
    IC4H10 = "iC4H10", 16
    KR = "Kr", 17
    XE = "Xe", 18
    SF6 = "SF6", 19
    C_25 = "C-25", 20
    C_10 = "C-10", 21
    C_8 = "C-8", 22
    C_2 = "C-2", 23
    C_75 = "C-75", 24
    HE_25 = "He-25", 25
    HE_75 = "He-75", 26
    A1025 = "A1025", 27
    STAR29 = "Star29", 28
    P_5 = "P-5", 29
    NO = "NO", 30
    NF3 = "NF3", 31
    NH3 = "NH3", 32
    CL2 = "Cl2", 33
    H2S = "H2S", 34
    SO2 = "SO2", 35
    C3H6 = "C3H6", 36
    BUTEN_1 = "1Buten", 80
    CBUTEN = "cButen", 81
    IBUTEN = "iButen", 82
    TBUTEN = "tButen", 83
    COS = "COS", 84
    DME = "DME", 85
    SIH4 = "SiH4", 86
    R_11 = "R-11", 100
    R_115 = "R-115", 101
    R_116 = "R-116", 102
    R_124 = "R-124", 103
    R_125 = "R-125", 104
    R_134A = "R-134A", 105
    R_14 = "R-14", 106
    R_142B = "R-142b", 107
    R_143A = "R-143a", 108
    R_152A = "R-152a", 109
    R_22 = "R-22", 110
    R_23 = "R-23", 111
    R_32 = "R-32", 112
    R_318 = "R-318", 113
    R_404A = "R-404A", 114
    R_407C = "R-407C", 115
    R_410A = "R-410A", 116
    R_507A = "R-507A", 117
    C_15 = "C-15", 140
    C_20 = "C-20", 141
    C_50 = "C-50", 142
    HE_50 = "He-50", 143
    HE_90 = "He-90", 144
    BIO5M = "Bio5M", 145
    BIO10M = "Bio10M", 146
    BIO15M = "Bio15M", 147
    BIO20M = "Bio20M", 148
    BIO25M = "Bio25M", 149
    BIO30M = "Bio30M", 150
    BIO35M = "Bio35M", 151
    BIO40M = "Bio40M", 152
    BIO45M = "Bio45M", 153
    BIO50M = "Bio50M", 154
    BIO55M = "Bio55M", 155
    BIO60M = "Bio60M", 156
    BIO65M = "Bio65M", 157
    BIO70M = "Bio70M", 158
    BIO75M = "Bio75M", 159
    BIO80M = "Bio80M", 160
    BIO85M = "Bio85M", 161
    BIO90M = "Bio90M", 162
    BIO95M = "Bio95M", 163
    EAN_32 = "EAN-32", 164
    EAN_36 = "EAN-36", 165
    EAN_40 = "EAN-40", 166
    HEOX20 = "HeOx20", 167
    HEOX21 = "HeOx21", 168
    HEOX30 = "HeOx30", 169
    HEOX40 = "HeOx40", 170
    HEOX50 = "HeOx50", 171
    HEOX60 = "HeOx60", 172
    HEOX80 = "HeOx80", 173
    HEOX99 = "HeOx99", 174
    EA_40 = "EA-40", 175
    EA_60 = "EA-60", 176
    EA_80 = "EA-80", 177
    METAB = "Metab", 178
    LG_4_5 = "LG-4.5", 179
    LG_6 = "LG-6", 180
    LG_7 = "LG-7", 181
    LG_9 = "LG-9", 182
    HENE_9 = "HeNe-9", 183
    LG_9_4 = "LG-9.4", 184
    SYNG_1 = "SynG-1", 185
    SYNG_2 = "SynG-2", 186
    SYNG_3 = "SynG-3", 187
    SYNG_4 = "SynG-4", 188
    NATG_1 = "NatG-1", 189
    NATG_2 = "NatG-2", 190
    NATG_3 = "NatG-3", 191
    COALG = "CoalG", 192
    ENDO = "Endo", 193
    HHO = "HHO", 194
    HD_5 = "HD-5", 195
    HD_10 = "HD-10", 196
    OCG_89 = "OCG-89", 197
    OCG_93 = "OCG-93", 198
    OCG_95 = "OCG-95", 199
    FG_1 = "FG-1", 200
    FG_2 = "FG-2", 201
    FG_3 = "FG-3", 202
    FG_4 = "FG-4", 203
    FG_5 = "FG-5", 204
    FG_6 = "FG-6", 205
    P_10 = "P-10", 206
    D_2 = "D-2", 210
    MIX_236 = "Mix236", 236
    MIX_237 = "Mix237", 237
    MIX_238 = "Mix238", 238
    MIX_239 = "Mix239", 239
    MIX_240 = "Mix240", 240
    MIX_241 = "Mix241", 241
    MIX_242 = "Mix242", 242
    MIX_243 = "Mix243", 243
    MIX_244 = "Mix244", 244
    MIX_245 = "Mix245", 245
    MIX_246 = "Mix246", 246
    MIX_247 = "Mix247", 247
    MIX_248 = "Mix248", 248
    MIX_249 = "Mix249", 249
    MIX_250 = "Mix250", 250
    MIX_251 = "Mix251", 251
    MIX_252 = "Mix252", 252
    MIX_253 = "Mix253", 253
    MIX_254 = "Mix254", 254
    MIX_255 = "Mix255", 255


# Common names.
_ALIASES: dict[Gas, tuple[str, ...]] = {
    Gas.AR: ("Argon",),
    Gas.CH4: ("Methane",),
    Gas.CO: ("Carbon Monoxide",),
    Gas.CO2: ("Carbon Dioxide",),
    Gas.C2H6: ("Ethane",),
    Gas.H2: ("Hydrogen",),
    Gas.HE: ("Helium",),
    Gas.N2: ("Nitrogen",),
    Gas.N2O: ("Nitrous Oxide",),
    Gas.NE: ("Neon",),
    Gas.O2: ("Oxygen",),
    Gas.C3H8: ("Propane",),
    Gas.NC4H10: (
        "n-Butane",
        "Butane",
        "C4H10",
    ),
    Gas.C2H2: ("Acetylene",),
    Gas.C2H4: (
        "Ethylene",
        "Ethene",
    ),
    Gas.IC4H10: (
        "Isobutane",
        "i-C4H10",
    ),
    Gas.KR: ("Krypton",),
    Gas.XE: ("Xenon",),
    Gas.SF6: ("Sulfur Hexafluoride",),
    Gas.STAR29: ("Stargon CS",),
    Gas.NO: ("Nitric Oxide",),
    Gas.NF3: ("Nitrogen Trifluoride",),
    Gas.NH3: ("Ammonia",),
    Gas.CL2: ("Chlorine",),
    Gas.H2S: (
        "Hydrogen Sulfide",
        "Hydrogen Sulphide",
    ),
    Gas.SO2: ("Sulfur Dioxide",),
    Gas.C3H6: ("Propylene",),
    Gas.BUTEN_1: (
        "1-Butylene",
        "1Butene",
    ),
    Gas.CBUTEN: (
        "Cis-Butene",
        "cButene",
        "cis-2-Butene",
    ),
    Gas.IBUTEN: ("Isobutene",),
    Gas.TBUTEN: ("Trans-2-Butene",),
    Gas.COS: ("Carbonyl Sulfide",),
    Gas.DME: (
        "Dimethylether",
        "C2H6O",
        "DMES",
    ),
    Gas.SIH4: ("Silane",),
    Gas.R_11: (
        "CCl3F",
        "Trichlorofluoromethane",
    ),
    Gas.R_115: (
        "C2ClF5",
        "Chloropentafluoroethane",
    ),
    Gas.R_116: (
        "C2F6",
        "Hexafluoroethane",
    ),
    Gas.R_124: (
        "C2HClF4",
        "Chlorotetrafluoroethane",
    ),
    Gas.R_125: (
        "CF3CHF2",
        "Pentafluoroethane",
    ),
    Gas.R_134A: (
        "CH2FCF3",
        "Tetrafluoroethane",
    ),
    Gas.R_14: (
        "CF4",
        "Tetrafluoromethane",
    ),
    Gas.R_142B: (
        "CH3CClF2",
        "Chlorodifluoroethane",
    ),
    Gas.R_143A: (
        "C2H3F3",
        "Trifluoroethane",
    ),
    Gas.R_152A: (
        "C2H4F2",
        "Difluoroethane",
    ),
    Gas.R_22: (
        "CHClF2",
        "Difluoromonochloromethane",
    ),
    Gas.R_23: (
        "CHF3",
        "Trifluoromethane",
    ),
    Gas.R_32: (
        "CH2F2",
        "Difluoromethane",
    ),
    Gas.R_318: (
        "C4F8",
        "Octafluorocyclobutane",
    ),
    Gas.METAB: ("Metabolic Exhalant",),
    Gas.HENE_9: ("HeNe9",),
    Gas.D_2: ("Deuterium",),
    Gas.MIX_236: ("236",),
    Gas.MIX_237: ("237",),
    Gas.MIX_238: ("238",),
    Gas.MIX_239: ("239",),
    Gas.MIX_240: ("240",),
    Gas.MIX_241: ("241",),
    Gas.MIX_242: ("242",),
    Gas.MIX_243: ("243",),
    Gas.MIX_244: ("244",),
    Gas.MIX_245: ("245",),
    Gas.MIX_246: ("246",),
    Gas.MIX_247: ("247",),
    Gas.MIX_248: ("248",),
    Gas.MIX_249: ("249",),
    Gas.MIX_250: ("250",),
    Gas.MIX_251: ("251",),
    Gas.MIX_252: ("252",),
    Gas.MIX_253: ("253",),
    Gas.MIX_254: ("254",),
    Gas.MIX_255: ("255",),
}

index_members(Gas, _ALIASES, UnknownGasError)
