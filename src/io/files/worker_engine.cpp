#include <penstock/io/files/choose_file_engine.hpp>

#include "io/files/pooled_engine.hpp"

namespace penstock::io {

namespace {

class WorkerEngine final : public PooledEngine {
public:
    using PooledEngine::PooledEngine;
    ~WorkerEngine() override { close(); }
    WorkerEngine(const WorkerEngine&) = delete;
    WorkerEngine& operator=(const WorkerEngine&) = delete;

    [[nodiscard]] std::string_view name() const noexcept override { return "threads"; }
};

} // namespace

std::unique_ptr<FileEngine> make_worker_engine(const FileEngineOptions& options) {
    return std::make_unique<WorkerEngine>(options);
}

} // namespace penstock::io
