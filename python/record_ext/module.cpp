// penstock._record: the native half of penstock.record. It turns columns into the rows of text and
// binary formats, and samples into columns. Values only: no file, no connection, no state.

#include "module.hpp"

namespace penstock::python::record {

namespace {

int execute(PyObject* module) {
    ModuleState* state = state_of_module(module);
    // Not PyDateTime_IMPORT: that is a variable of the process, and this module has none.
    state->datetime = static_cast<PyDateTime_CAPI*>(PyCapsule_Import(PyDateTime_CAPSULE_NAME, 0));
    return state->datetime != nullptr && add_xxh3_digest(module) ? 0 : -1;
}

PyMethodDef functions[] = {
    {"csv_rows", &csv_rows, METH_VARARGS, "csv_rows(columns, start, stop): rows as CSV."},
    {"json_rows", &json_rows, METH_VARARGS,
     "json_rows(columns, labels, start, stop): rows as JSON Lines."},
    {"copy_rows", &copy_rows, METH_VARARGS,
     "copy_rows(columns, start, stop): rows as PostgreSQL's binary COPY."},
    {"plain_rows", &plain_rows, METH_VARARGS,
     "plain_rows(columns, start, stop): rows as the bytes that a digest is of."},
    {"line_rows", &line_rows, METH_VARARGS,
     "line_rows(columns, labels, start, stop): rows as InfluxDB's line protocol."},
    {"line_counts", &line_counts, METH_O,
     "line_counts(data): line feeds, quotes, and returns without a line feed behind them."},
    {"rising_stamps", &rising_stamps, METH_VARARGS,
     "rising_stamps(stamps, codes, last, start): the first row not behind the last of its series."},
    {"attribute_lists", &attribute_lists, METH_VARARGS,
     "attribute_lists(objects, names): a list of each attribute."},
    {"value_lists", &value_lists, METH_VARARGS,
     "value_lists(mappings, names): a list for each key, and whether there are other keys."},
    {"float_cells", &float_cells, METH_O,
     "float_cells(cells): floats and None as numbers and validity bytes; None for other values."},
    {"utc_stamps", &utc_stamps, METH_VARARGS,
     "utc_stamps(moments, otherwise): nanoseconds since 1970 UTC of datetimes."},
    {"frame_values", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&frame_values)),
     METH_FASTCALL,
     "frame_values(prefix, names, widths, decimals, text_width, texts, line): a dict, or None."},
    {"filled", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&filled)), METH_FASTCALL,
     "filled(type, slots, *values): an instance whose slots hold the values."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(&execute)},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, nullptr},
};

PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "penstock._record",
    .m_doc = "The native half of penstock.record.",
    .m_size = sizeof(ModuleState),
    .m_methods = functions,
    .m_slots = slots,
};

} // namespace

ModuleState* state_of_module(PyObject* module) noexcept {
    return static_cast<ModuleState*>(PyModule_GetState(module));
}

} // namespace penstock::python::record

PyMODINIT_FUNC PyInit__record() {
    return PyModuleDef_Init(&penstock::python::record::definition);
}
