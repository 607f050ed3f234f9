"""The statistics of measured quantities, and the quantities that a controller can control.

Statistics are the numbers under which an instrument knows its measured and set quantities, those of
the maker's serial primer.
"""

from __future__ import annotations

from enum import IntEnum

from penstock.alicat.errors import AlicatValidationError, UnknownStatisticError
from penstock.alicat.registry.lookup import Coded, index_members

__all__ = [
    "LoopControlVariable",
    "Statistic",
]


class Statistic(Coded):
    """A quantity that an instrument measures, controls or reports; ``code`` is its number."""

    NONE = "none", 1
    ABS_PRESS = "abs_press", 2
    TEMP_STREAM = "temp_stream", 3
    VOL_FLOW = "vol_flow", 4
    MASS_FLOW = "mass_flow", 5
    GAUGE_PRESS = "gauge_press", 6
    DIFF_PRESS = "diff_press", 7
    TOT_VOL = "tot_vol", 8
    TOT_MASS = "tot_mass", 9
    TOTALIZING_TIME = "totalizing_time", 10
    BATCH_VOL_REMAIN = "batch_vol_remain", 11
    BATCH_MASS_REMAIN = "batch_mass_remain", 12
    VALVE_DRIVE = "valve_drive", 13
    TIME_MEAS_REMAIN = "time_meas_remain", 14
    BARO_PRESS = "baro_press", 15
    TEMP_EXT = "temp_ext", 16
    VOL_FLOW_EXT = "vol_flow_ext", 17
    TOT_VOL_EXT = "tot_vol_ext", 18
    BATCH_VOL_EXT_REMAIN = "batch_vol_ext_remain", 19
    TEMP_EXT_VFR = "temp_ext_vfr", 20
    TEMP_EXT_VFR_SRC = "temp_ext_vfr_src", 21
    REL_HUM = "rel_hum", 25
    STATUS = "status", 26
    SETPT = "setpt", 32
    ABS_PRESS_SETPT = "abs_press_setpt", 34
    VOL_FLOW_SETPT = "vol_flow_setpt", 36
    MASS_FLOW_SETPT = "mass_flow_setpt", 37
    GAUGE_PRESS_SETPT = "gauge_press_setpt", 38
    DIFF_PRESS_SETPT = "diff_press_setpt", 39
    VALVE_DRIVE_SETPT = "valve_drive_setpt", 45
    VOL_FLOW_EXT_SETPT = "vol_flow_ext_setpt", 49
    ABS_PRESS_AVG = "abs_press_avg", 66
    TEMP_STREAM_AVG = "temp_stream_avg", 67
    VOL_FLOW_AVG = "vol_flow_avg", 68
    MASS_FLOW_AVG = "mass_flow_avg", 69
    GAUGE_PRESS_AVG = "gauge_press_avg", 70
    BARO_PRESS_AVG = "baro_press_avg", 79
    VOL_FLOW_EXT_AVG = "vol_flow_ext_avg", 81
    TEMP_EXT_VFR_AVG = "temp_ext_vfr_avg", 84
    TEMP_EXT_VFR_SRC_AVG = "temp_ext_vfr_src_avg", 85
    REL_HUM_AVG = "rel_hum_avg", 89
    ABS_PRESS_PEAK = "abs_press_peak", 98
    VOL_FLOW_PEAK = "vol_flow_peak", 100
    MASS_FLOW_PEAK = "mass_flow_peak", 101
    GAUGE_PRESS_PEAK = "gauge_press_peak", 102
    BARO_PRESS_PEAK = "baro_press_peak", 111
    VOL_FLOW_EXT_PEAK = "vol_flow_ext_peak", 113
    TEMP_EXT_VFR_PEAK = "temp_ext_vfr_peak", 116
    REL_HUM_PEAK = "rel_hum_peak", 121
    SETPT_ERR = "setpt_err", 133
    ABS_PRESS_SETPT_ERR = "abs_press_setpt_err", 149
    ABS_PRESS_MIN = "abs_press_min", 150
    ABS_PRESS_MAX = "abs_press_max", 151
    TEMP_STREAM_MIN = "temp_stream_min", 158
    TEMP_STREAM_MAX = "temp_stream_max", 159
    VOL_FLOW_SETPT_ERR = "vol_flow_setpt_err", 165
    VOL_FLOW_MIN = "vol_flow_min", 166
    VOL_FLOW_MAX = "vol_flow_max", 167
    MASS_FLOW_SETPT_ERR = "mass_flow_setpt_err", 173
    MASS_FLOW_MIN = "mass_flow_min", 174
    MASS_FLOW_MAX = "mass_flow_max", 175
    GAUGE_PRESS_SETPT_ERR = "gauge_press_setpt_err", 181
    GAUGE_PRESS_MIN = "gauge_press_min", 182
    GAUGE_PRESS_MAX = "gauge_press_max", 183
    DIFF_PRESS_SETPT_ERR = "diff_press_setpt_err", 189
    DIFF_PRESS_MIN = "diff_press_min", 190
    DIFF_PRESS_MAX = "diff_press_max", 191
    BARO_PRESS_MIN = "baro_press_min", 254
    BARO_PRESS_MAX = "baro_press_max", 255
    TEMP_EXT_MIN = "temp_ext_min", 262
    TEMP_EXT_MAX = "temp_ext_max", 263
    VOL_FLOW_EXT_SETPT_ERR = "vol_flow_ext_setpt_err", 268
    VOL_FLOW_EXT_MIN = "vol_flow_ext_min", 270
    VOL_FLOW_EXT_MAX = "vol_flow_ext_max", 271
    TEMP_EXT_VFR_MIN = "temp_ext_vfr_min", 294
    TEMP_EXT_VFR_MAX = "temp_ext_vfr_max", 295
    REL_HUM_MIN = "rel_hum_min", 334
    REL_HUM_MAX = "rel_hum_max", 335
    ABS_PRESS_SECOND = "abs_press_second", 344
    ABS_PRESS_SECOND_SETPT = "abs_press_second_setpt", 345
    ABS_PRESS_SECOND_SETPT_ERR = "abs_press_second_setpt_err", 349
    ABS_PRESS_SECOND_MIN = "abs_press_second_min", 350
    ABS_PRESS_SECOND_MAX = "abs_press_second_max", 351
    GAUGE_PRESS_SECOND = "gauge_press_second", 352
    GAUGE_PRESS_SECOND_SETPT = "gauge_press_second_setpt", 353
    GAUGE_PRESS_SECOND_SETPT_ERR = "gauge_press_second_setpt_err", 357
    GAUGE_PRESS_SECOND_MIN = "gauge_press_second_min", 358
    GAUGE_PRESS_SECOND_MAX = "gauge_press_second_max", 359
    DIFF_PRESS_SECOND = "diff_press_second", 360
    DIFF_PRESS_SECOND_SETPT = "diff_press_second_setpt", 361
    DIFF_PRESS_SECOND_SETPT_ERR = "diff_press_second_setpt_err", 365
    DIFF_PRESS_SECOND_MIN = "diff_press_second_min", 366
    DIFF_PRESS_SECOND_MAX = "diff_press_second_max", 367
    USER_TIME = "user_time", 392
    USER_DATE = "user_date", 400
    FLUID_NAME = "fluid_name", 703
    MEAS_ID = "meas_id", 801
    MEAS_STAT = "meas_stat", 802

    @property
    def is_setpoint(self) -> bool:
        """Whether this is a commanded value, and not a measured one."""
        return self is Statistic.SETPT or self in _CONTROLLED

    @property
    def controlled(self) -> Statistic | None:
        """The quantity that a setpoint sets: ``MASS_FLOW`` for ``MASS_FLOW_SETPT``."""
        return _CONTROLLED.get(self)


_CONTROLLED: dict[Statistic, Statistic] = {
    Statistic.ABS_PRESS_SETPT: Statistic.ABS_PRESS,
    Statistic.VOL_FLOW_SETPT: Statistic.VOL_FLOW,
    Statistic.MASS_FLOW_SETPT: Statistic.MASS_FLOW,
    Statistic.VOL_FLOW_EXT_SETPT: Statistic.VOL_FLOW_EXT,
    Statistic.VALVE_DRIVE_SETPT: Statistic.VALVE_DRIVE,
    Statistic.GAUGE_PRESS_SETPT: Statistic.GAUGE_PRESS,
    Statistic.DIFF_PRESS_SETPT: Statistic.DIFF_PRESS,
    Statistic.ABS_PRESS_SECOND_SETPT: Statistic.ABS_PRESS_SECOND,
    Statistic.GAUGE_PRESS_SECOND_SETPT: Statistic.GAUGE_PRESS_SECOND,
    Statistic.DIFF_PRESS_SECOND_SETPT: Statistic.DIFF_PRESS_SECOND,
}

# Names in ??D* tables: firmware abbreviates some of them, and 5v has its own.
_ALIASES: dict[Statistic, tuple[str, ...]] = {
    Statistic.TEMP_STREAM: (
        "flow_temp",
        "stream_temp",
        "temperature",
    ),
    Statistic.VOL_FLOW: (
        "volu_flow",
        "volumetric",
    ),
    Statistic.MASS_FLOW: ("mass",),
    Statistic.TIME_MEAS_REMAIN: ("remain_time_meas",),
    Statistic.TEMP_EXT_VFR: ("ext_vol_flow_ref_temp",),
    Statistic.TEMP_EXT_VFR_SRC: ("ext_vol_flow_ref_temp_src",),
    Statistic.REL_HUM: ("relative_humidity",),
    Statistic.SETPT: ("setpoint",),
    Statistic.TEMP_STREAM_AVG: ("flow_temp_avg",),
    Statistic.TEMP_EXT_VFR_AVG: ("ext_vol_flow_ref_temp_avg",),
    Statistic.TEMP_EXT_VFR_SRC_AVG: ("ext_vol_flow_ref_temp_src_avg",),
    Statistic.TEMP_EXT_VFR_PEAK: ("ext_vol_flow_ref_temp_peak",),
    Statistic.TEMP_STREAM_MIN: ("flow_temp_min",),
    Statistic.TEMP_STREAM_MAX: ("flow_temp_max",),
    Statistic.TEMP_EXT_VFR_MAX: ("ext_vol_flow_ref_temp_max",),
    Statistic.ABS_PRESS_SECOND: ("2nd_abs_press",),
    Statistic.ABS_PRESS_SECOND_SETPT: ("2nd_abs_press_setpt",),
    Statistic.ABS_PRESS_SECOND_SETPT_ERR: ("2nd_abs_press_setpt_err",),
    Statistic.ABS_PRESS_SECOND_MIN: ("2nd_abs_press_min",),
    Statistic.ABS_PRESS_SECOND_MAX: ("2nd_abs_press_max",),
    Statistic.GAUGE_PRESS_SECOND: ("2nd_gauge_press",),
    Statistic.GAUGE_PRESS_SECOND_SETPT: ("2nd_gauge_press_setpt",),
    Statistic.GAUGE_PRESS_SECOND_SETPT_ERR: ("2nd_gauge_press_setpt_err",),
    Statistic.GAUGE_PRESS_SECOND_MIN: ("2nd_gauge_press_min",),
    Statistic.GAUGE_PRESS_SECOND_MAX: ("2nd_gauge_press_max",),
    Statistic.DIFF_PRESS_SECOND: ("2nd_diff_press",),
    Statistic.DIFF_PRESS_SECOND_SETPT: ("2nd_diff_press_setpt",),
    Statistic.DIFF_PRESS_SECOND_SETPT_ERR: ("2nd_diff_press_setpt_err",),
    Statistic.DIFF_PRESS_SECOND_MIN: ("2nd_diff_press_min",),
    Statistic.DIFF_PRESS_SECOND_MAX: ("2nd_diff_press_max",),
    Statistic.FLUID_NAME: ("gas",),
}

index_members(Statistic, _ALIASES, UnknownStatisticError)


class LoopControlVariable(IntEnum):
    """The controlled quantity; the value is its number on the wire."""

    ABS_PRESS_SETPT = 34
    VOL_FLOW_SETPT = 36
    MASS_FLOW_SETPT = 37
    GAUGE_PRESS_SETPT = 38
    DIFF_PRESS_SETPT = 39
    ABS_PRESS_SECOND_SETPT = 345
    GAUGE_PRESS_SECOND_SETPT = 353
    DIFF_PRESS_SECOND_SETPT = 361

    @property
    def statistic(self) -> Statistic:
        """The setpoint's statistic."""
        return Statistic.by_code(self.value)

    @classmethod
    def coerce(cls, value: LoopControlVariable | Statistic | str | int) -> LoopControlVariable:
        """Return a variable from itself, its setpoint's statistic, its name or its number.

        A measured quantity (``mass_flow``) stands for its setpoint.

        Raises:
            AlicatValidationError: no setpoint can be of that.
        """
        if isinstance(value, LoopControlVariable):
            return value
        statistic = Statistic.coerce(value)
        for variable in cls:
            if statistic in (variable.statistic, variable.statistic.controlled):
                return variable
        names = ", ".join(variable.name.lower() for variable in cls)
        raise AlicatValidationError(f"{value!r} cannot be controlled; choose one of {names}")
