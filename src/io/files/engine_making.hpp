#pragma once

#include <functional>
#include <memory>

#include <penstock/io/files/choose_file_engine.hpp>

#include "io/files/ring_kernel.hpp"

namespace penstock::io {

// The public functions of <penstock/io/files/choose_file_engine.hpp>, with their dependencies as
// parameters.

/// `make_uring_engine` on this kernel, which must outlive the engine.
[[nodiscard]] std::unique_ptr<FileEngine> make_uring_engine(const FileEngineOptions& options,
                                                            RingKernel& kernel);

using MakeEngine = std::function<std::unique_ptr<FileEngine>(const FileEngineOptions&)>;

/// `choose_file_engine` with rings made by `make_ring`.
[[nodiscard]] FileEngineChoice choose_file_engine(FileEnginePreference preference,
                                                  const FileEngineOptions& options,
                                                  const MakeEngine& make_ring);

} // namespace penstock::io
