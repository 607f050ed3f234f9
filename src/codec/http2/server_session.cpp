#include <penstock/codec/http2/server_session.hpp>

#include "codec/http2/nghttp2.hpp"
#include "codec/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <new>

namespace penstock::codec::http2 {

namespace {

constexpr int would_block = -504;
constexpr int bad_preface = -903;

/// A stream that ends keeps so much of its buffers for the next one.
constexpr std::size_t kept = 16384;
constexpr std::size_t most_spare = 32;

std::string_view text_of(const std::uint8_t* data, std::size_t size) noexcept {
    return {reinterpret_cast<const char*>(data), size};
}

std::uint8_t* bytes_of(std::string_view text) noexcept {
    // nghttp2 copies fields, and does not write to them.
    return const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(text.data()));
}

/// Whether a field belongs to a connection of HTTP/1.1 (RFC 9113, section 8.2.2).
bool is_of_connection(std::string_view name) noexcept {
    const auto is = [name](std::string_view other) {
        return http::equal_ignoring_case(name, other);
    };
    switch (name.size()) {
    case 7:
        return is("upgrade");
    case 10:
        return is("connection") || is("keep-alive");
    case 16:
        return is("proxy-connection");
    case 17:
        return is("transfer-encoding");
    default:
        return false;
    }
}

const nghttp2::Library& lib() noexcept {
    return *nghttp2::library();
}

} // namespace

bool is_available() noexcept {
    return nghttp2::library() != nullptr;
}

/// The library's session.
struct ServerSession::NghttpSession {
    NghttpSession() = default;
    NghttpSession(const NghttpSession&) = delete;
    NghttpSession& operator=(const NghttpSession&) = delete;
    ~NghttpSession() {
        if (raw != nullptr) {
            lib().session_del(raw);
        }
    }

    nghttp2_session* raw = nullptr;
    std::vector<nghttp2::Field> fields; ///< of the head that is sent
    std::size_t limit = 0;              ///< of the output of `produce`
    bool excess = false;                ///< a rate was exceeded while sending
};

/// What the library calls. Nothing of the program runs in it.
struct ServerSession::Callbacks {
    using Frame = nghttp2::Frame;
    using FrameHead = nghttp2::FrameHead;

    static ServerSession& session_of(void* user) noexcept {
        return *static_cast<ServerSession*>(user);
    }

    static int on_begin_headers(nghttp2_session* raw, const Frame* frame, void* user) noexcept {
        ServerSession& session = session_of(user);
        const std::int32_t id = frame->head.stream_id;
        if (Stream* stream = session.stream_of(id)) { // trailers
            stream->trailers_.clear();
            stream->trailer_sizes_.clear();
            stream->trailer_size_ = 0;
            return 0;
        }
        try {
            Stream* stream = session.make_stream(id);
            session.open_head_ = stream;
            ++session.open_heads_;
            return lib().session_set_stream_user_data(raw, id, stream);
        } catch (const std::bad_alloc&) {
            return nghttp2::callback_failure;
        }
    }

    static int on_field(nghttp2_session* /*raw*/, const Frame* frame, const std::uint8_t* name,
                        std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                        std::uint8_t /*flags*/, void* user) noexcept {
        ServerSession& session = session_of(user);
        Stream* stream = session.stream_of(frame->head.stream_id);
        if (stream == nullptr) {
            return 0;
        }
        const bool trailer = stream->announced_;
        std::size_t& size = trailer ? stream->trailer_size_ : stream->head_size_;
        const std::size_t count =
            trailer ? stream->trailer_sizes_.size() + 1 : ++stream->fields_count_;
        size += name_size + value_size + 32;
        if (size > session.limits_.head || count > session.limits_.fields) {
            if (trailer) {
                return nghttp2::temporal_callback_failure;
            }
            // Decoding goes on, because the table of the compression must stay in step.
            stream->too_large_ = true;
            return 0;
        }
        try {
            (trailer ? stream->trailer_sizes_ : session.sizes_)
                .emplace_back(static_cast<std::uint32_t>(name_size),
                              static_cast<std::uint32_t>(value_size));
            std::string& text = trailer ? stream->trailers_ : session.heads_;
            text.append(text_of(name, name_size)).push_back('\0');
            text.append(text_of(value, value_size)).push_back('\0');
            return 0;
        } catch (const std::bad_alloc&) {
            return nghttp2::callback_failure;
        }
    }

    static int on_frame_recv(nghttp2_session* /*raw*/, const Frame* frame, void* user) noexcept {
        const FrameHead& head = frame->head;
        if (head.type != nghttp2::frame::headers && head.type != nghttp2::frame::data) {
            return 0;
        }
        ServerSession& session = session_of(user);
        Stream* stream = session.stream_of(head.stream_id);
        if (stream == nullptr) {
            return 0;
        }
        const bool ends = (head.flags & nghttp2::frame::end_stream) != 0;
        if (!stream->announced_) {
            stream->announced_ = true;
            stream->new_ = true;
            session.open_head_ = nullptr;
            --session.open_heads_;
            if (stream->too_large_) {
                session.heads_.resize(stream->head_begin_);
                session.sizes_.resize(stream->fields_begin_);
                stream->fields_count_ = 0;
            }
            stream->head_size_ = session.heads_.size() - stream->head_begin_;
        } else if (!ends) {
            return 0;
        }
        stream->request_ended_ |= ends;
        session.note_change(*stream);
        return 0;
    }

    static int on_data(nghttp2_session* raw, std::uint8_t /*flags*/, std::int32_t id,
                       const std::uint8_t* data, std::size_t size, void* user) noexcept {
        ServerSession& session = session_of(user);
        // For the other streams; each stream has a window of its own.
        lib().session_consume_connection(raw, size);
        Stream* stream = session.stream_of(id);
        if (stream == nullptr) {
            return 0;
        }
        if (stream->response_ended_ && !stream->keeps_request_) {
            lib().session_consume_stream(raw, id, size);
            return 0;
        }
        try {
            stream->received.append(std::as_bytes(std::span(data, size)));
        } catch (const std::bad_alloc&) {
            return nghttp2::callback_failure;
        }
        session.note_change(*stream);
        return 0;
    }

    static int on_stream_close(nghttp2_session* raw, std::int32_t id, std::uint32_t /*code*/,
                               void* user) noexcept {
        ServerSession& session = session_of(user);
        Stream* stream = session.stream_of(id);
        if (stream == nullptr) {
            return 0;
        }
        lib().session_set_stream_user_data(raw, id, nullptr);
        stream->closed_ = true;
        if (!stream->announced_) {
            --session.open_heads_;
            session.recycle(*stream);
        } else {
            session.note_change(*stream);
        }
        return 0;
    }

    static int on_frame_send(nghttp2_session* raw, const Frame* frame, void* user) noexcept {
        ServerSession& session = session_of(user);
        const FrameHead& head = frame->head;
        if (head.type == nghttp2::frame::rst_stream) {
            if (frame->error_code != static_cast<std::uint32_t>(ErrorCode::no_error) &&
                !session.resets_.spend(session.now_)) {
                session.session_->excess = true;
            }
        } else if ((head.type == nghttp2::frame::headers || head.type == nghttp2::frame::data) &&
                   (head.flags & nghttp2::frame::end_stream) != 0) {
            Stream* stream = session.stream_of(head.stream_id);
            if (stream != nullptr) {
                stream->sent_end_ = true;
            }
            if ((stream == nullptr || !stream->keeps_request_) &&
                lib().session_get_stream_remote_close(raw, head.stream_id) == 0) {
                // The response is complete, so the rest of the request is not needed.
                lib().submit_rst_stream(raw, 0, head.stream_id,
                                        static_cast<std::uint32_t>(ErrorCode::no_error));
            }
        }
        return 0;
    }

    static ssize_t read_body(nghttp2_session* /*raw*/, std::int32_t /*id*/,
                             std::uint8_t* /*buffer*/, std::size_t length, std::uint32_t* flags,
                             nghttp2::Source* source, void* /*user*/) noexcept {
        auto* stream = static_cast<Stream*>(source->pointer);
        const std::size_t unsent = stream->unsent();
        if (unsent == 0 && !stream->response_ended_) {
            stream->deferred_ = true;
            return nghttp2::deferred;
        }
        const std::size_t size = std::min(length, unsent);
        *flags |= nghttp2::data_no_copy;
        if (size == unsent && stream->response_ended_) {
            *flags |= nghttp2::data_eof;
        }
        return static_cast<ssize_t>(size);
    }

    static int send_data(nghttp2_session* /*raw*/, Frame* /*frame*/, const std::uint8_t* head,
                         std::size_t length, nghttp2::Source* source, void* user) noexcept {
        ServerSession& session = session_of(user);
        ByteBuffer& output = *session.output_;
        if (output.size() >= session.session_->limit) {
            return would_block;
        }
        auto* stream = static_cast<Stream*>(source->pointer);
        try {
            constexpr std::size_t head_size = 9;
            const std::span<std::byte> body = stream->output_.bytes().subspan(stream->sent_);
            static_cast<void>(output.room(head_size + length));
            output.append(std::as_bytes(std::span(head, head_size)));
            output.append(body.first(length));
        } catch (const std::bad_alloc&) {
            return nghttp2::callback_failure;
        }
        stream->sent_ += length;
        stream->moved_ = true;
        if (stream->unsent() == 0) {
            stream->output_.clear(kept);
            stream->sent_ = 0;
        }
        session.control_frames_.credit(2);
        session.note_change(*stream);
        return 0;
    }
};

namespace {

struct CallbacksOfLibrary {
    CallbacksOfLibrary() {
        if (lib().session_callbacks_new(&raw) != 0) {
            throw std::bad_alloc();
        }
    }
    ~CallbacksOfLibrary() { lib().session_callbacks_del(raw); }
    CallbacksOfLibrary(const CallbacksOfLibrary&) = delete;
    CallbacksOfLibrary& operator=(const CallbacksOfLibrary&) = delete;

    nghttp2_session_callbacks* raw = nullptr;
};

struct OptionOfLibrary {
    explicit OptionOfLibrary(const Limits& limits) {
        if (lib().option_new(&raw) != 0) {
            throw std::bad_alloc();
        }
        lib().option_set_no_auto_window_update(raw, 1);
        lib().option_set_max_outbound_ack(raw, limits.waiting_answers);
        lib().option_set_max_deflate_dynamic_table_size(raw, 4096);
        if (lib().option_set_stream_reset_rate_limit != nullptr) {
            lib().option_set_stream_reset_rate_limit(
                raw, static_cast<std::uint64_t>(limits.resets.burst * 2),
                static_cast<std::uint64_t>(limits.resets.a_second * 2));
        }
        if (lib().option_set_max_continuations != nullptr) {
            lib().option_set_max_continuations(raw, limits.continuations);
        }
        if (lib().option_set_glitch_rate_limit != nullptr) {
            lib().option_set_glitch_rate_limit(
                raw, static_cast<std::uint64_t>(limits.control_frames.burst * 2),
                static_cast<std::uint64_t>(limits.control_frames.a_second * 2));
        }
    }
    ~OptionOfLibrary() { lib().option_del(raw); }
    OptionOfLibrary(const OptionOfLibrary&) = delete;
    OptionOfLibrary& operator=(const OptionOfLibrary&) = delete;

    nghttp2_option* raw = nullptr;
};

void check(int result) {
    if (result != 0) {
        throw std::bad_alloc(); // nothing else can fail in these calls
    }
}

} // namespace

ServerSession::ServerSession(const Limits& limits)
    : limits_(limits), session_(std::make_unique<NghttpSession>()), resets_(limits.resets),
      control_frames_(limits.control_frames) {
    const CallbacksOfLibrary callbacks;
    lib().session_callbacks_set_on_begin_headers_callback(callbacks.raw,
                                                          &Callbacks::on_begin_headers);
    lib().session_callbacks_set_on_header_callback(callbacks.raw, &Callbacks::on_field);
    lib().session_callbacks_set_on_frame_recv_callback(callbacks.raw, &Callbacks::on_frame_recv);
    lib().session_callbacks_set_on_frame_send_callback(callbacks.raw, &Callbacks::on_frame_send);
    lib().session_callbacks_set_on_data_chunk_recv_callback(callbacks.raw, &Callbacks::on_data);
    lib().session_callbacks_set_on_stream_close_callback(callbacks.raw,
                                                         &Callbacks::on_stream_close);
    lib().session_callbacks_set_send_data_callback(callbacks.raw, &Callbacks::send_data);
    const OptionOfLibrary option(limits);
    check(lib().session_server_new2(&session_->raw, callbacks.raw, this, option.raw));
    const std::array settings = {
        nghttp2::Setting{nghttp2::setting::max_concurrent_streams, limits.streams},
        nghttp2::Setting{nghttp2::setting::initial_window_size, limits.stream_window},
        nghttp2::Setting{nghttp2::setting::max_header_list_size,
                         static_cast<std::uint32_t>(limits.head)},
        nghttp2::Setting{nghttp2::setting::enable_connect_protocol, limits.websockets ? 1U : 0U},
    };
    check(lib().submit_settings(session_->raw, 0, settings.data(), settings.size()));
    check(lib().session_set_local_window_size(session_->raw, 0, 0,
                                              static_cast<std::int32_t>(limits.connection_window)));
}

ServerSession::~ServerSession() {
    session_.reset(); // its callbacks may still name streams
    for (Stream* stream : streams_) {
        delete stream;
    }
}

bool ServerSession::receive(std::string_view bytes, Time now) {
    if (!failure_.empty()) {
        return false;
    }
    if (lib().session_want_read(session_->raw) == 0) {
        return true; // it only sends what is left
    }
    now_ = now;
    forget_heads();
    if (!count_frames(bytes)) {
        fail(failure_);
        return false;
    }
    const ssize_t taken = lib().session_mem_recv(session_->raw, bytes_of(bytes), bytes.size());
    if (taken >= 0) {
        return true;
    }
    if (taken == nghttp2::no_memory || (taken == nghttp2::callback_failure && failure_.empty())) {
        throw std::bad_alloc();
    }
    if (taken == bad_preface) {
        code_ = ErrorCode::protocol_error;
        fail("The client does not begin as HTTP/2 does");
    } else {
        fail("The client sends too many frames");
    }
    return false;
}

void ServerSession::forget_heads() noexcept {
    if (open_head_ == nullptr) {
        heads_.clear();
        sizes_.clear();
        return;
    }
    // The library tells the fields of a head as they arrive, and not when the head is whole.
    heads_.erase(0, open_head_->head_begin_);
    sizes_.erase(sizes_.begin(),
                 sizes_.begin() + static_cast<std::ptrdiff_t>(open_head_->fields_begin_));
    open_head_->head_begin_ = 0;
    open_head_->fields_begin_ = 0;
}

bool ServerSession::count_frames(std::string_view bytes) noexcept {
    while (!bytes.empty()) {
        if (skipped_ > 0) {
            const std::size_t size = std::min(skipped_, bytes.size());
            skipped_ -= size;
            bytes.remove_prefix(size);
            continue;
        }
        const std::size_t size = std::min(frame_head_.size() - frame_head_size_, bytes.size());
        std::ranges::copy(bytes.substr(0, size), frame_head_.begin() + frame_head_size_);
        frame_head_size_ += static_cast<unsigned char>(size);
        bytes.remove_prefix(size);
        if (frame_head_size_ == frame_head_.size()) {
            frame_head_size_ = 0;
            const auto byte = [&](std::size_t place) {
                return static_cast<unsigned char>(frame_head_[place]);
            };
            skipped_ = static_cast<std::size_t>(byte(0) << 16 | byte(1) << 8 | byte(2));
            if (!count_frame(byte(3), byte(4), skipped_)) {
                return false;
            }
        }
    }
    return true;
}

bool ServerSession::count_frame(unsigned char type, unsigned char flags,
                                std::size_t length) noexcept {
    bool within = true;
    switch (type) {
    case nghttp2::frame::data:
        if (length == 0 && (flags & nghttp2::frame::end_stream) == 0) {
            within = control_frames_.spend(now_);
        } else {
            control_frames_.credit(2);
        }
        break;
    case nghttp2::frame::headers:
        continuations_ = 0;
        break;
    case nghttp2::frame::rst_stream:
        if (!resets_.spend(now_)) {
            failure_ = "The client resets too many streams";
            return false;
        }
        break;
    case nghttp2::frame::continuation:
        within = ++continuations_ <= limits_.continuations;
        break;
    default:
        within = control_frames_.spend(now_);
        break;
    }
    if (!within) {
        failure_ = "The client sends too many frames without a message";
    }
    return within;
}

Stream* ServerSession::next_change() noexcept {
    if (next_change_ == changes_.size()) {
        changes_.clear();
        next_change_ = 0;
        return nullptr;
    }
    Stream* stream = changes_[next_change_++];
    stream->changed_ = false;
    return stream;
}

std::span<const http::Field> ServerSession::head(const Stream& stream) {
    return fields_of(std::string_view(heads_).substr(stream.head_begin_),
                     std::span(sizes_).subspan(stream.fields_begin_, stream.fields_count_));
}

std::span<const http::Field> ServerSession::trailers(const Stream& stream) {
    return fields_of(stream.trailers_, stream.trailer_sizes_);
}

std::span<const http::Field>
ServerSession::fields_of(std::string_view text,
                         std::span<const std::pair<std::uint32_t, std::uint32_t>> sizes) {
    fields_.clear();
    for (const auto& [name, value] : sizes) {
        fields_.push_back({.name = text.substr(0, name), .value = text.substr(name + 1, value)});
        text.remove_prefix(std::size_t{name} + value + 2);
    }
    return fields_;
}

std::string_view ServerSession::head_text(const Stream& stream) const noexcept {
    return std::string_view(heads_).substr(stream.head_begin_, stream.head_size_);
}

void ServerSession::consume(Stream& stream, std::size_t size) noexcept {
    if (!stream.closed_ && size > 0) {
        lib().session_consume_stream(session_->raw, stream.id_, size);
    }
}

void ServerSession::send_interim(Stream& stream, int status, std::span<const http::Field> fields) {
    if (!stream.closed_ && !stream.answered_) {
        const std::size_t count = fill_fields(status, fields);
        lib().submit_headers(session_->raw, 0, stream.id_, nullptr, session_->fields.data(), count,
                             nullptr);
    }
}

void ServerSession::respond(Stream& stream, int status, std::span<const http::Field> fields,
                            bool ends) {
    if (stream.closed_ || stream.answered_) {
        return;
    }
    const std::size_t count = fill_fields(status, fields);
    stream.answered_ = true;
    stream.response_ended_ = ends;
    const nghttp2::DataProvider body{.source = {.pointer = &stream}, .read = &Callbacks::read_body};
    if (lib().submit_response(session_->raw, stream.id_, session_->fields.data(), count,
                              ends ? nullptr : &body) == nghttp2::no_memory) {
        throw std::bad_alloc();
    }
}

void ServerSession::write(Stream& stream, std::string_view bytes) {
    if (stream.closed_) {
        return;
    }
    if (stream.sent_ > kept && stream.sent_ >= stream.unsent()) {
        ByteBuffer rest;
        rest.append(stream.output_.bytes().subspan(stream.sent_));
        stream.output_ = std::move(rest);
        stream.sent_ = 0;
    }
    stream.output_.append(std::as_bytes(std::span(bytes)));
    if (std::exchange(stream.deferred_, false)) {
        lib().session_resume_data(session_->raw, stream.id_);
    }
}

void ServerSession::finish(Stream& stream) noexcept {
    if (stream.closed_ || std::exchange(stream.response_ended_, true)) {
        return;
    }
    if (std::exchange(stream.deferred_, false)) {
        lib().session_resume_data(session_->raw, stream.id_);
    }
}

void ServerSession::reset(Stream& stream, ErrorCode code) noexcept {
    if (!stream.closed_) {
        stream.answered_ = true;
        lib().submit_rst_stream(session_->raw, 0, stream.id_, static_cast<std::uint32_t>(code));
    }
}

void ServerSession::release(Stream& stream) noexcept {
    if (stream.changed_) {
        const auto waiting = changes_.begin() + static_cast<std::ptrdiff_t>(next_change_);
        changes_.erase(std::find(waiting, changes_.end(), &stream));
    }
    recycle(stream);
}

bool ServerSession::produce(ByteBuffer& output, std::size_t limit) {
    output_ = &output;
    session_->limit = limit;
    ssize_t size = 0;
    while (output.size() < limit) {
        const std::uint8_t* data = nullptr;
        size = lib().session_mem_send(session_->raw, &data);
        if (size <= 0) {
            break;
        }
        output.append(std::as_bytes(std::span(data, static_cast<std::size_t>(size))));
    }
    output_ = nullptr;
    if (size == nghttp2::no_memory || size == nghttp2::callback_failure) {
        throw std::bad_alloc();
    }
    if (std::exchange(session_->excess, false) && failure_.empty()) {
        fail("The client makes the server reset too many streams");
    }
    return size >= 0;
}

void ServerSession::go_away(ErrorCode code) noexcept {
    if (!std::exchange(away_, true)) {
        lib().submit_goaway(session_->raw, 0, lib().session_get_last_proc_stream_id(session_->raw),
                            static_cast<std::uint32_t>(code), nullptr, 0);
    }
}

bool ServerSession::is_finished() const noexcept {
    return lib().session_want_read(session_->raw) == 0 &&
           lib().session_want_write(session_->raw) == 0;
}

void ServerSession::reset_stalled(Time now, Time limit) noexcept {
    for (Stream* stream : streams_) {
        if (stream->unsent() == 0 || std::exchange(stream->moved_, false)) {
            stream->stalled_since_ = 0;
        } else if (stream->stalled_since_ == 0) {
            stream->stalled_since_ = now.count();
        } else if (now.count() - stream->stalled_since_ >= limit.count()) {
            reset(*stream, ErrorCode::cancel);
        }
    }
}

Stream* ServerSession::make_stream(std::int32_t id) {
    streams_.reserve(streams_.size() + 1);
    changes_.reserve(next_change_ + streams_.size() + 1);
    if (spare_.empty()) {
        spare_.push_back(std::make_unique<Stream>());
    }
    Stream* stream = spare_.back().release();
    spare_.pop_back();
    stream->id_ = id;
    stream->head_begin_ = heads_.size();
    stream->fields_begin_ = sizes_.size();
    streams_.push_back(stream);
    return stream;
}

Stream* ServerSession::stream_of(std::int32_t id) const noexcept {
    return static_cast<Stream*>(lib().session_get_stream_user_data(session_->raw, id));
}

void ServerSession::recycle(Stream& stream) noexcept {
    if (open_head_ == &stream) {
        open_head_ = nullptr;
    }
    streams_.erase(std::ranges::find(streams_, &stream));
    std::unique_ptr<Stream> owned(&stream);
    if (spare_.size() < most_spare) {
        Stream fresh;
        fresh.received = std::move(stream.received);
        fresh.text = std::move(stream.text);
        fresh.output_ = std::move(stream.output_);
        fresh.received.clear(kept);
        fresh.text.clear(kept);
        fresh.output_.clear(kept);
        stream = std::move(fresh);
        try {
            spare_.push_back(std::move(owned));
        } catch (const std::bad_alloc&) {
            return; // freed
        }
    }
}

void ServerSession::note_change(Stream& stream) {
    if (std::exchange(stream.changed_, true)) {
        return;
    }
    if (changes_.size() == changes_.capacity()) {
        // There is room for all streams: none of it was needed when this one was made.
        changes_.erase(changes_.begin(),
                       changes_.begin() + static_cast<std::ptrdiff_t>(next_change_));
        next_change_ = 0;
    }
    changes_.push_back(&stream);
}

void ServerSession::fail(std::string_view why) noexcept {
    if (failure_.empty()) {
        failure_ = why;
    }
    lib().session_terminate_session(session_->raw, static_cast<std::uint32_t>(code_));
}

std::size_t ServerSession::fill_fields(int status, std::span<const http::Field> fields) {
    std::array<char, 12> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), status);
    status_.assign(digits.data(), end.ptr);
    session_->fields.clear();
    const auto add = [&](std::string_view name, std::string_view value) {
        session_->fields.push_back({bytes_of(name), bytes_of(value), name.size(), value.size(), 0});
    };
    add(":status", status_);
    for (const http::Field& field : fields) {
        if (!is_of_connection(field.name)) {
            add(field.name, trimmed(field.value));
        }
    }
    return session_->fields.size();
}

bool ServerSession::Budget::spend(Time now) noexcept {
    if (last_.count() != 0) {
        credit(rate_.a_second * std::chrono::duration<double>(now - last_).count());
    }
    last_ = now;
    left_ -= 1;
    return left_ >= 0;
}

void ServerSession::Budget::credit(double amount) noexcept {
    left_ = std::min(left_ + amount, rate_.burst);
}

} // namespace penstock::codec::http2
