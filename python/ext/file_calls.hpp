#pragma once

#include "file_operation.hpp"

namespace penstock::python {

// The kinds of operations that a `FileEngineObject` makes.

extern const FileCall read_call;
extern const FileCall read_into_call;
extern const FileCall write_call;
extern const FileCall fsync_call;
extern const FileCall fdatasync_call;
extern const FileCall truncate_call;
extern const FileCall open_call;
extern const FileCall close_call;
extern const FileCall read_file_call;
extern const FileCall stat_call;
extern const FileCall rename_call;
extern const FileCall unlink_call;
extern const FileCall rmdir_call;
extern const FileCall mkdir_call;
extern const FileCall link_call;
extern const FileCall copy_range_call;
extern const FileCall python_call;
extern const FileCall give_way_call;

} // namespace penstock::python
