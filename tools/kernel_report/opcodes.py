"""Names of machine instructions of sm_80 and sm_90 by bits 0 to 8 of their encoding, and the unit that each one takes.

Read off `cuobjdump -sass`, which prints both, as the sample in sass_sample.txt shows. (Bits 9 to 11
say whether operands are registers, constants or numbers.)"""

# Units, each a column of the table. What they do per clock is in device.py.
FP32, FP64, MATRIX = "fp32", "fp64", "matrix"
INTEGER = "integer"  # of the ALU pipe: also comparisons, selections and minima of floats
MULTIPLY = "imad"  # integers that the FMA pipe multiplies, or moves
CONVERSION, MUFU, MEMORY, CONTROL = "conversion", "mufu", "memory", "control"  # mufu: the slow conversions too

BY_UNIT = {
    FP32: {0x020: "FMUL", 0x021: "FADD", 0x023: "FFMA", 0x030: "HADD2", 0x031: "HFMA2", 0x032: "HMUL2", 0x035: "HFMA2"},
    FP64: {0x028: "DMUL", 0x029: "DADD", 0x02A: "DSETP", 0x02B: "DFMA"},
    MATRIX: {0x03C: "HMMA"},
    MULTIPLY: {0x024: "IMAD", 0x025: "IMAD", 0x027: "IMAD"},
    INTEGER: {0x002: "MOV", 0x003: "P2R", 0x004: "R2P", 0x005: "CS2R", 0x006: "VOTE", 0x007: "SEL", 0x008: "FSEL", 0x009: "FMNMX",
              0x00B: "FSETP", 0x00C: "ISETP", 0x00F: "VIMNMX3", 0x010: "IADD3", 0x011: "LEA", 0x012: "LOP3", 0x013: "IABS", 0x016: "PRMT",
              0x017: "IMNMX", 0x019: "SHF", 0x01A: "SGXT", 0x01C: "PLOP3", 0x033: "HSET2", 0x034: "HSETP2", 0x036: "VIADD",
              0x046: "VIADDMNMX", 0x048: "VIMNMX", 0x0CA: "R2UR", 0x1C4: "REDUX"},
    CONVERSION: {0x03E: "F2FP", 0x045: "I2FP", 0x0C5: "F2IP"},
    MUFU: {0x100: "FLO", 0x102: "FCHK", 0x104: "F2F", 0x105: "F2I", 0x106: "I2F", 0x107: "FRND", 0x108: "MUFU", 0x109: "POPC",
           0x110: "F2F", 0x111: "F2I", 0x112: "I2F", 0x113: "FRND"},
    MEMORY: {0x180: "LD", 0x181: "LDG", 0x182: "LDC", 0x183: "LDL", 0x184: "LDS", 0x185: "ST", 0x186: "STG", 0x187: "STL",
             0x188: "STS", 0x189: "SHFL", 0x18A: "ATOM", 0x18E: "REDG", 0x18F: "CCTL", 0x1A8: "ATOMG", 0x1AE: "LDGSTS",
             0x03B: "LDSM"},
    CONTROL: {0x118: "NOP", 0x119: "S2R", 0x11A: "DEPBAR", 0x11B: "ENDCOLLECTIVE", 0x11D: "BAR", 0x141: "BSYNC", 0x142: "BREAK",
              0x143: "CALL", 0x144: "CALL", 0x145: "BSSY", 0x146: "YIELD", 0x147: "BRA", 0x148: "WARPSYNC", 0x14D: "EXIT", 0x150: "RET",
              0x155: "BMOV", 0x156: "BMOV", 0x15C: "BPT", 0x192: "MEMBAR", 0x1AB: "ERRBAR", 0x1AF: "LDGDEPBAR",
              # One for a whole warp, on a pipe of their own.
              0x082: "UMOV", 0x086: "VOTEU", 0x087: "USEL", 0x08C: "UISETP", 0x090: "UIADD3", 0x091: "ULEA", 0x092: "ULOP3",
              0x096: "UPRMT", 0x099: "USHF", 0x09C: "UPLOP3", 0x0A4: "UIMAD", 0x0A5: "UIMAD", 0x0B9: "ULDC", 0x0BB: "ULDC", 0x0BD: "UFLO",
              0x1C3: "S2UR"},
}
UNITS = tuple(BY_UNIT)
TABLE = {bits: (name, unit) for unit, names in BY_UNIT.items() for bits, name in names.items()}
