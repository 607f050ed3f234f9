#pragma once

#include "files/file_engine.hpp"

namespace penstock::python {

/// The running loop's engine, if it is there without a detour. New reference; null otherwise, with
/// an exception set only for an error.
Ref running_engine(ModuleState* state) noexcept;

} // namespace penstock::python
