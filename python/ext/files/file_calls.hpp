#pragma once

#include "files/file_operation.hpp"

namespace penstock::python {

// One constant for each kind of file operation.

extern const FileCall read_call;
extern const FileCall read_into_call;
extern const FileCall write_call;
extern const FileCall fsync_call;
extern const FileCall fdatasync_call;
extern const FileCall truncate_call;
extern const FileCall open_call;
extern const FileCall close_call;
extern const FileCall leave_call;
extern const FileCall read_file_call;
extern const FileCall stat_call;
extern const FileCall rename_call;
extern const FileCall unlink_call;
extern const FileCall rmdir_call;
extern const FileCall mkdir_call;
extern const FileCall link_call;
extern const FileCall copy_range_call;
extern const FileCall lock_call;
extern const FileCall python_call;
extern const FileCall yield_call;

} // namespace penstock::python
