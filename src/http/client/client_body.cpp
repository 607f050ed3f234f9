#include <penstock/http/client_body.hpp>

#include <penstock/fs/file.hpp>
#include <penstock/task/unwrap.hpp>

namespace penstock::http {

namespace {

/// Reads at offsets, so that it can begin anew.
class FileSource final : public detail::BodySource {
public:
    FileSource(fs::File file, std::uint64_t length) noexcept
        : file_(std::move(file)), length_(length) {}

    [[nodiscard]] Task<Result<std::size_t>> read(MutableBytes into) override {
        // What is appended meanwhile was not announced.
        const std::uint64_t left = length_ - offset_;
        const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), left));
        const std::size_t count =
            co_await unwrap(file_.read_at(offset_, MutableBytes(into.data(), part)));
        offset_ += count;
        co_return count;
    }

    [[nodiscard]] bool repeatable() const noexcept override { return true; }
    void rewind() override { offset_ = 0; }

private:
    fs::File file_;
    std::uint64_t length_;
    std::uint64_t offset_ = 0;
};

} // namespace

Task<Result<RequestBody>> RequestBody::file(std::string path) {
    fs::File file = co_await unwrap(fs::File::open(path));
    const fs::Status status = co_await unwrap(file.status());
    co_return RequestBody(std::make_unique<FileSource>(std::move(file), status.size), status.size);
}

} // namespace penstock::http
