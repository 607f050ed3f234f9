#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/stream.hpp>
#include <penstock/task/async_generator.hpp>
#include <penstock/task/task.hpp>

namespace penstock::http {

namespace detail {

/// Where the bytes of a request's body come from.
class BodySource {
public:
    BodySource() = default;
    BodySource(const BodySource&) = delete;
    BodySource& operator=(const BodySource&) = delete;
    virtual ~BodySource() = default;

    /// As `Reader::read`.
    [[nodiscard]] virtual Task<Result<std::size_t>> read(MutableBytes into) = 0;

    /// Whether `rewind` begins anew.
    [[nodiscard]] virtual bool repeatable() const noexcept { return false; }
    /// Not while a read waits.
    virtual void rewind() {}

    /// Whether a cancelled read may be repeated, as that of a `Reader`.
    [[nodiscard]] virtual bool read_may_be_cancelled() const noexcept { return true; }
};

/// Items of a generator that are bytes, or `Result`s of them.
template <typename Item> struct BodyItem {
    using Payload = Item;
};
template <typename Item> struct BodyItem<Result<Item>> {
    using Payload = Item;
};
template <typename Item>
concept BodyItemOf = std::convertible_to<const typename BodyItem<Item>::Payload&, Bytes>;

template <Reader From> class ReaderSource final : public BodySource {
public:
    explicit ReaderSource(From reader) : reader_(std::move(reader)) {}

    [[nodiscard]] Task<Result<std::size_t>> read(MutableBytes into) override {
        co_return co_await reader_.read(into);
    }

private:
    From reader_;
};

template <Reader From> class ReaderReference final : public BodySource {
public:
    explicit ReaderReference(From& reader) noexcept : reader_(reader) {}

    [[nodiscard]] Task<Result<std::size_t>> read(MutableBytes into) override {
        co_return co_await reader_.read(into);
    }

private:
    From& reader_;
};

template <BodyItemOf Item> class GeneratorSource final : public BodySource {
public:
    explicit GeneratorSource(AsyncGenerator<Item> items) noexcept : items_(std::move(items)) {}

    [[nodiscard]] Task<Result<std::size_t>> read(MutableBytes into) override {
        while (rest_.empty()) { // an empty item is not the end
            item_ = co_await items_.next();
            if (!item_) {
                co_return 0;
            }
            if constexpr (is_result<Item>) {
                if (!*item_) {
                    co_return failure(item_->error());
                }
                rest_ = Bytes(**item_);
            } else {
                rest_ = Bytes(*item_);
            }
        }
        const std::size_t count = std::min(into.size(), rest_.size());
        std::memcpy(into.data(), rest_.data(), count);
        rest_ = Bytes(rest_.data() + count, rest_.size() - count);
        co_return count;
    }

    /// A cancelled generator ends.
    [[nodiscard]] bool read_may_be_cancelled() const noexcept override { return false; }

private:
    AsyncGenerator<Item> items_;
    std::optional<Item> item_;
    Bytes rest_;
};

template <typename From> std::unique_ptr<BodySource> make_source(From from) {
    return std::make_unique<ReaderSource<From>>(std::move(from));
}
template <BodyItemOf Item> std::unique_ptr<BodySource> make_source(AsyncGenerator<Item> items) {
    return std::make_unique<GeneratorSource<Item>>(std::move(items));
}

/// Calls a function for each attempt.
template <typename Make> class RepeatableSource final : public BodySource {
public:
    explicit RepeatableSource(Make make) : make_(std::move(make)) {}

    [[nodiscard]] Task<Result<std::size_t>> read(MutableBytes into) override {
        if (!current_) {
            current_ = make_source(std::invoke(make_));
        }
        co_return co_await current_->read(into);
    }

    [[nodiscard]] bool repeatable() const noexcept override { return true; }
    void rewind() override { current_.reset(); }

    [[nodiscard]] bool read_may_be_cancelled() const noexcept override {
        return !current_ || current_->read_may_be_cancelled();
    }

private:
    Make make_;
    std::unique_ptr<BodySource> current_;
};

} // namespace detail

/// The body of a request: nothing, bytes in memory, or what a stream or generator yields.
///
/// A body with a known length is announced by Content-Length. Without one, HTTP/1.1 sends the body
/// in chunks (RFC 9112, section 7.1). HTTP/2 needs neither. The client reads the next part of a
/// body when it has sent the last one.
///
/// A request with a moved-from body fails with `ClientError::invalid_request`.
///
/// The client sends a body again after a redirect with status 307 or 308, and if a kept connection
/// turns out to be closed. That works for bytes in memory, files and `repeatable` bodies. With any
/// other body the request then fails with `ClientError::body_not_repeatable`.
class RequestBody {
public:
    /// No body.
    RequestBody() = default;
    RequestBody(RequestBody&& other) noexcept { *this = std::move(other); }
    RequestBody& operator=(RequestBody&& other) noexcept {
        if (this != &other) {
            moved_from_ = other.moved_from_;
            other.moved_from_ = moved_from_ || !other.none();
            bytes_ = std::move(other.bytes_);
            source_ = std::move(other.source_);
            length_ = std::exchange(other.length_, std::nullopt);
        }
        return *this;
    }
    ~RequestBody() = default;

    RequestBody(std::string text)
        : bytes_(std::make_shared<const std::string>(std::move(text))), length_(bytes_->size()) {}
    RequestBody(std::string_view text) : RequestBody(std::string(text)) {}
    RequestBody(const char* text) : RequestBody(std::string(text)) {}
    RequestBody(const std::vector<std::byte>& bytes)
        : RequestBody(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())) {}

    /// The bytes of a stream or another reader, to its end. The body owns the reader.
    ///
    /// The client waits for the reader and the response at the same time. It cancels the read when
    /// a part of the response has arrived, and reads again afterwards: a cancelled read of a
    /// `Reader` consumes nothing.
    template <Reader From>
        requires(!std::is_reference_v<From>)
    [[nodiscard]] static RequestBody stream(From from,
                                            std::optional<std::uint64_t> length = std::nullopt) {
        return RequestBody(std::make_unique<detail::ReaderSource<From>>(std::move(from)), length);
    }

    /// The same with a reader that the caller owns, and that outlives the request and its response.
    template <Reader From>
    [[nodiscard]] static RequestBody stream_of(From& from,
                                               std::optional<std::uint64_t> length = std::nullopt) {
        return RequestBody(std::make_unique<detail::ReaderReference<From>>(from), length);
    }

    /// The items of a generator, which are bytes or `Result`s of bytes. An item that is an error
    /// ends the request with that error. The client does not cancel a step of the generator, so the
    /// response waits for the step. For a dialogue, in which a part of the body depends on the
    /// response, use a stream.
    template <detail::BodyItemOf Item>
    [[nodiscard]] static RequestBody generated(AsyncGenerator<Item> items,
                                               std::optional<std::uint64_t> length = std::nullopt) {
        return RequestBody(std::make_unique<detail::GeneratorSource<Item>>(std::move(items)),
                           length);
    }

    /// A body that can be sent again: `make` returns a reader or a generator each time.
    template <std::invocable Make>
    [[nodiscard]] static RequestBody
    repeatable(Make make, std::optional<std::uint64_t> length = std::nullopt) {
        return RequestBody(std::make_unique<detail::RepeatableSource<Make>>(std::move(make)),
                           length);
    }

    /// The content of a file, with the length that the file has now. Errors: those of
    /// `fs::File::open`, and of fstat(2).
    [[nodiscard]] static Task<Result<RequestBody>> file(std::string path);

    /// The number of bytes, if it is known.
    [[nodiscard]] std::optional<std::uint64_t> length() const noexcept { return length_; }

    /// Whether there is no body at all. An empty text is a body of no bytes.
    [[nodiscard]] bool none() const noexcept { return bytes_ == nullptr && source_ == nullptr; }

    /// Whether this object had a body and was moved from.
    [[nodiscard]] bool moved_from() const noexcept { return moved_from_; }

    /// For the client: the bytes in memory, or null.
    [[nodiscard]] const std::string* bytes() const noexcept { return bytes_.get(); }
    /// For the client: where other bytes come from, or null.
    [[nodiscard]] detail::BodySource* source() const noexcept { return source_.get(); }

private:
    RequestBody(std::unique_ptr<detail::BodySource> source,
                std::optional<std::uint64_t> length) noexcept
        : source_(std::move(source)), length_(length) {}

    std::shared_ptr<const std::string> bytes_;
    std::unique_ptr<detail::BodySource> source_;
    std::optional<std::uint64_t> length_;
    bool moved_from_ = false;
};

} // namespace penstock::http
