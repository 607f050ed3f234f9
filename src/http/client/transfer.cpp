#include "http/client/transfer.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <ranges>
#include <stdexcept>
#include <string>
#include <utility>

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <penstock/codec/http/fields.hpp>
#include <penstock/detail/io/write_watch.hpp>
#include <penstock/detail/task/deadline.hpp>
#include <penstock/io/owner_of.hpp>

#include "http/client/failure.hpp"

namespace penstock::http::detail {

namespace {

/// The most bytes of a response's fields, and of its trailers.
constexpr std::size_t max_head = std::size_t{256} * 1024;
/// libcurl counts bytes with a sign.
constexpr auto max_length = std::uint64_t{std::numeric_limits<std::int64_t>::max()};

Version version_of(std::string_view status_line) noexcept {
    if (status_line.starts_with("HTTP/1.1 ")) {
        return Version::http_1_1;
    }
    if (status_line.starts_with("HTTP/1.0 ")) {
        return Version::http_1_0;
    }
    return status_line.starts_with("HTTP/2") ? Version::http_2 : Version::other;
}

std::string_view without_line_end(std::string_view line) noexcept {
    if (line.ends_with('\n')) {
        line.remove_suffix(1);
    }
    if (line.ends_with('\r')) {
        line.remove_suffix(1);
    }
    return line;
}

} // namespace

bool TransferWait::await_ready() noexcept {
    if (context().cancelled()) {
        ready_ = cancelled_ = true;
    } else if (transfer_->changed_) {
        transfer_->changed_ = false;
        ready_ = true;
    }
    return ready_ && context().loop().consume_budget();
}

void TransferWait::begin() noexcept {
    if (ready_) {
        resume_soon();
    } else {
        transfer_->waiter_ = this;
    }
}

void TransferWait::cancel(OperationBase& base) noexcept {
    auto& self = static_cast<TransferWait&>(base);
    self.transfer_->waiter_ = nullptr;
    self.cancelled_ = true;
    self.resume_soon();
}

Transfer::Transfer(std::shared_ptr<CurlMulti> multi, TransferRequest request)
    : multi_(std::move(multi)), request_(std::move(request)), easy_(curl_easy_init()) {
    if (!easy_) {
        throw std::bad_alloc();
    }
    configure();
}

Transfer::~Transfer() {
    stop();
}

void Transfer::start() {
    multi_->add(*this);
    running_ = true;
}

/// A callback of libcurl schedules the task. It never runs it.
void Transfer::notify() noexcept {
    if (waiter_ != nullptr) {
        std::exchange(waiter_, nullptr)->resume_soon();
    } else {
        changed_ = true;
    }
}

void Transfer::stop() noexcept {
    if (!running_) {
        return;
    }
    if (receive_paused_) {
        // libcurl 7.88 loses what it keeps for a paused transfer if another one shares the
        // connection (HTTP/2), so this takes it.
        discarding_ = true;
        receive_paused_ = false;
        (void)curl_easy_pause(easy_.get(), send_paused_ ? CURLPAUSE_SEND : CURLPAUSE_CONT);
    }
    running_ = false;
    multi_->loop().timers().cancel(idle_timer_);
    multi_->remove(*this);
}

void Transfer::fail(std::error_code error) noexcept {
    stop();
    if (!ended_) {
        ended_ = true;
        error_ = error;
        notify();
    }
}

void Transfer::finish(CURLcode code) noexcept {
    if (status_ >= 200) {
        stage_ = Stage::body; // also a head that libcurl was expected to ask again for
    }
    if (code == CURLE_OK && !head_complete_ && has_head() && version_ != Version::http_2) {
        refused_ = ClientError::truncated; // libcurl takes the end of the connection for its end
        code = CURLE_PARTIAL_FILE;
    }
    if (code == CURLE_OK) {
        try {
            flush_field(); // no empty line ends the trailers
        } catch (...) {
            refused_ = ClientError::invalid_response;
            code = CURLE_WEIRD_SERVER_REPLY;
        }
    }
    if (code == CURLE_OUT_OF_MEMORY && connected_ && !head_complete_ && !refused_) {
        refused_ = ClientError::invalid_response; // libcurl's code for a line that is too long
    }
    std::error_code error;
    if (code != CURLE_OK || !has_head()) {
        CurlOutcome outcome{.code = code == CURLE_OK ? CURLE_GOT_NOTHING : code};
        curl_easy_getinfo(easy_.get(), CURLINFO_OS_ERRNO, &outcome.os_error);
        curl_easy_getinfo(easy_.get(), CURLINFO_HTTP_CONNECTCODE, &outcome.proxy_status);
        ClientError cause = refused_.value_or(error_of(outcome));
        std::string_view details = details_.data();
        if (has_head() && cause == ClientError::connection_lost) {
            // libcurl has one code for both.
            cause = details.contains("chunked-encoding") ? ClientError::invalid_response
                                                         : ClientError::truncated;
        }
        if (details.empty()) {
            details = curl_easy_strerror(outcome.code);
        }
        error = failed_request(cause, request_.name, refused_ ? std::string_view() : details);
    }
    fail(error);
}

// The response's head

std::size_t Transfer::on_header(char* data, std::size_t size, std::size_t count,
                                void* context) noexcept {
    auto& self = *static_cast<Transfer*>(context);
    if (!self.restart_idle_time()) {
        return 0;
    }
    try {
        self.head_size_ += size * count;
        if (self.head_size_ > max_head) {
            self.refused_ = ClientError::invalid_response;
            return 0;
        }
        self.add_header_line(std::string_view(data, size * count));
        return size * count;
    } catch (const std::invalid_argument&) { // no token, or a control character
        self.refused_ = ClientError::invalid_response;
    } catch (...) {
        self.refused_ = ClientError::not_enough_memory;
    }
    return 0; // libcurl ends the transfer
}

void Transfer::add_header_line(std::string_view raw) {
    const std::string_view line = without_line_end(raw);
    if (stage_ == Stage::head && line.starts_with("HTTP/")) {
        begin_head(line);
    } else if (line.starts_with(' ') || line.starts_with('\t')) { // obs-fold, RFC 9112, 5.2
        field_.append(" ").append(
            line.substr(std::min(line.find_first_not_of(" \t"), line.size())));
    } else if (line.empty()) {
        flush_field();
        end_of_fields();
    } else {
        flush_field();
        field_ = line;
    }
}

void Transfer::begin_head(std::string_view status_line) {
    head_.headers.clear();
    head_complete_ = false;
    field_.clear();
    version_ = version_of(status_line);
    std::string_view rest = status_line.substr(std::min(status_line.find(' '), status_line.size()));
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size())); // libcurl takes several
    status_ = 0;
    std::from_chars(rest.data(), rest.data() + rest.size(), status_);
    head_.status = static_cast<Status>(status_);
}

void Transfer::flush_field() {
    if (field_.empty()) {
        return;
    }
    const std::size_t colon = std::min(field_.find(':'), field_.size());
    const std::string_view name = std::string_view(field_).substr(0, colon);
    const std::string_view value =
        std::string_view(field_).substr(std::min(colon + 1, field_.size()));
    (stage_ == Stage::head ? head_.headers : trailers_).add(name, value);
    field_.clear();
}

void Transfer::end_of_fields() {
    head_complete_ = true;
    if (status_ == 101) { // nobody has asked for it (RFC 9110, section 15.2.2)
        throw std::invalid_argument("101");
    }
    // An expectation that fails before the body was sent makes libcurl ask again without it.
    const bool asked_again = status_ == 417 && request_.has_body && sent_ == 0;
    if (stage_ == Stage::head && status_ >= 200 && !asked_again) {
        check_length();
        if (asks_for_coding_) {
            decoder_ = ContentDecoder::make(head_.headers);
        }
        stage_ = Stage::body;
        head_size_ = 0; // interim responses count with the final one
        notify();
    }
}

/// Refuses lengths that differ or are too large (RFC 9112, section 6.3). libcurl takes one of them,
/// or reads until the connection ends.
void Transfer::check_length() const {
    if (head_.headers.contains("Transfer-Encoding")) {
        return; // has priority
    }
    std::optional<std::uint64_t> length;
    for (const Field& field : head_.headers) {
        if (!codec::http::equal_ignoring_case(field.name, "Content-Length")) {
            continue;
        }
        for (const auto item : std::views::split(field.value, ',')) { // "3, 3" are equal too
            std::string_view text(item);
            text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
            std::uint64_t value = 0;
            const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
            if (parsed.ec != std::errc() || value > max_length || length.value_or(value) != value) {
                throw std::invalid_argument("Content-Length");
            }
            length = value;
        }
    }
}

// The response's body

std::size_t Transfer::on_data(char* data, std::size_t size, std::size_t count,
                              void* context) noexcept {
    auto& self = *static_cast<Transfer*>(context);
    if (self.discarding_) {
        return size * count;
    }
    self.stage_ = std::max(self.stage_, Stage::body);
    // What libcurl has kept is taken as a whole. For HTTP/2, it keeps what the server may send
    // while other streams are read (32 MiB). If a part were refused, it would copy the rest each
    // time, and allow the server as much again.
    const bool counts = self.request_.most && !self.decoder_;
    if (counts) {
        self.body_size_ += size * count;
        if (self.body_size_ > *self.request_.most) {
            self.refused_ = ClientError::body_too_large;
            return 0;
        }
    }
    if (!counts && !self.resuming_ && self.buffered() >= self.multi_->options().buffer) {
        self.receive_paused_ = true;
        return CURL_WRITEFUNC_PAUSE; // libcurl keeps these bytes and offers them again
    }
    try {
        if (self.input_begin_ == self.input_.size()) {
            self.input_.clear();
            self.input_begin_ = 0;
        } else if (self.input_begin_ > self.input_.size() / 2) {
            self.input_.erase(self.input_.begin(),
                              self.input_.begin() + static_cast<std::ptrdiff_t>(self.input_begin_));
            self.input_begin_ = 0;
        }
        const auto* bytes = reinterpret_cast<const std::byte*>(data);
        self.input_.insert(self.input_.end(), bytes, bytes + size * count);
    } catch (...) {
        self.refused_ = ClientError::not_enough_memory;
        return 0;
    }
    self.notify();
    return size * count;
}

/// Decodes from the buffer into the program's memory, so that what nobody has asked for stays
/// compressed.
std::size_t Transfer::decode(MutableBytes into) noexcept {
    const ContentDecoder::Step step =
        decoder_->decode({input_.data() + input_begin_, buffered()}, into);
    input_begin_ += step.taken;
    if (step.made == 0 && ended_ && !error_) {
        decoder_->end();
    }
    if (decoder_->failed()) {
        fail_anyway(decoder_->out_of_memory() ? ClientError::not_enough_memory
                                              : ClientError::undecodable_body,
                    decoder_->error());
        return 0;
    }
    body_size_ += step.made;
    if (request_.most && body_size_ > *request_.most) {
        fail_anyway(ClientError::body_too_large, {});
        return 0;
    }
    return step.made;
}

/// Also if it has ended: what has arrived cannot be read.
void Transfer::fail_anyway(ClientError error, std::string_view details) noexcept {
    input_begin_ = input_.size();
    stop();
    ended_ = true;
    if (!error_) {
        error_ = failed_request(error, request_.name, details);
    }
    notify();
}

std::size_t Transfer::take(MutableBytes into) noexcept {
    std::size_t count = 0;
    if (decoder_) {
        count = decode(into);
    } else if (count = std::min(into.size(), buffered()); count != 0) {
        std::memcpy(into.data(), input_.data() + input_begin_, count);
        input_begin_ += count;
    }
    if (receive_paused_ && buffered() <= multi_->options().buffer / 2) {
        receive_paused_ = false;
        resuming_ = true;
        apply_pauses(); // may add to the buffer at once
        resuming_ = false;
    }
    return count;
}

// The request's body

std::size_t Transfer::on_read(char* into, std::size_t size, std::size_t count,
                              void* context) noexcept {
    auto& self = *static_cast<Transfer*>(context);
    const std::size_t room = size * count;
    std::size_t given = 0;
    if (self.request_.bytes != nullptr) {
        const std::string& bytes = *self.request_.bytes;
        given = std::min<std::size_t>(room, bytes.size() - self.sent_);
        std::memcpy(into, bytes.data() + self.sent_, given);
    } else if (self.output_begin_ < self.output_.size()) {
        given = std::min(room, self.output_.size() - self.output_begin_);
        std::memcpy(into, self.output_.data() + self.output_begin_, given);
        self.output_begin_ += given;
    } else if (!self.output_ended_) {
        self.needs_body_ = self.send_paused_ = true;
        self.notify();
        return CURL_READFUNC_PAUSE;
    }
    self.sent_ += given;
    return given;
}

int Transfer::on_seek(void* context, curl_off_t offset, int origin) noexcept {
    auto& self = *static_cast<Transfer*>(context);
    if (origin != SEEK_SET || offset != 0) {
        return CURL_SEEKFUNC_CANTSEEK;
    }
    if (self.request_.bytes == nullptr && self.sent_ != 0) {
        if (!self.request_.repeatable) {
            self.refused_ = ClientError::body_not_repeatable;
            return CURL_SEEKFUNC_FAIL;
        }
        // A task may be reading the next part: it sees that the attempt has changed.
        ++self.body_attempt_;
        self.output_.clear();
        self.output_begin_ = 0;
        self.output_ended_ = false;
    }
    self.sent_ = 0;
    return CURL_SEEKFUNC_OK;
}

void Transfer::add_body(std::vector<std::byte>& part) {
    output_.swap(part);
    output_begin_ = 0;
    output_ended_ = output_.empty();
    needs_body_ = false;
    if (request_.length) {
        const bool too_long = output_.size() > *request_.length - sent_;
        const bool too_short = output_.empty() && sent_ < *request_.length;
        if (too_long || too_short) {
            fail(failed_request(ClientError::wrong_length, request_.name, {}));
            return;
        }
    }
    if (send_paused_) {
        send_paused_ = false;
        apply_pauses();
    }
}

void Transfer::apply_pauses() noexcept {
    if (!running_) {
        return;
    }
    if (!restart_idle_time()) {
        finish(CURLE_OUT_OF_MEMORY);
        return;
    }
    const int pauses = (receive_paused_ ? CURLPAUSE_RECV : 0) | (send_paused_ ? CURLPAUSE_SEND : 0);
    if (const CURLcode code = curl_easy_pause(easy_.get(), pauses); code != CURLE_OK) {
        finish(code);
    }
}

// The limit of `ClientTimeouts::idle`

/// Bytes that a kept connection has received before the request are not a response to it (RFC 9112,
/// section 9.2). libcurl 7.88 would take them for one. If it cannot write, it asks again on a new
/// connection. With TLS they may be a session ticket, and with HTTP/2 a frame.
void Transfer::leave_if_spoken_to(const char* peer, int peer_port, int own_port) noexcept {
    long opened = 0;
    const curl_tlssessioninfo* tls = nullptr;
    curl_easy_getinfo(easy_.get(), CURLINFO_NUM_CONNECTS, &opened);
    curl_easy_getinfo(easy_.get(), CURLINFO_TLS_SSL_PTR, &tls);
    if (opened != 0 || tls == nullptr || tls->internals != nullptr ||
        multi_->options().protocol == ClientProtocol::http_2_unasked) {
        return;
    }
    const curl_socket_t socket = multi_->find_socket(peer, peer_port, own_port);
    char first = 0;
    if (::recv(socket, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
        (void)::shutdown(socket, SHUT_WR);
    }
}

/// The request begins now. Before that, it may have waited for a connection, which is not limited,
/// and the connection has limits of its own.
int Transfer::on_connected(void* context, char* peer, char* /*own*/, int peer_port,
                           int own_port) noexcept {
    auto& self = *static_cast<Transfer*>(context);
    self.connected_ = true;
    self.leave_if_spoken_to(peer, peer_port, own_port);
    return self.restart_idle_time() ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

/// libcurl calls this after each of its steps. It counts what has passed the connection: neither
/// what a decoder has made of it, nor what waits in libcurl's buffers.
int Transfer::on_progress(void* context, curl_off_t /*to_receive*/, curl_off_t received,
                          curl_off_t /*to_send*/, curl_off_t sent) noexcept {
    auto& self = *static_cast<Transfer*>(context);
    if (received != self.received_ || sent != self.given_) {
        self.received_ = received;
        self.given_ = sent;
        return self.restart_idle_time() ? 0 : 1; // 1 ends the transfer
    }
    return 0;
}

/// A byte only notes the time: the timer, when it is due, is set again for the rest. Returns false
/// for want of memory.
bool Transfer::restart_idle_time() noexcept {
    if (!running_ || !connected_ || request_.timeouts.idle <= std::chrono::milliseconds(0)) {
        return true; // libcurl also calls back when the transfer is taken out
    }
    last_byte_ = io::monotonic_now();
    return idle_timer_.scheduled() || awaits_program() || set_idle_timer();
}

bool Transfer::set_idle_timer() noexcept {
    try {
        multi_->loop().timers().add(
            idle_timer_, penstock::detail::deadline_after(request_.timeouts.idle, last_byte_));
        return true;
    } catch (...) {
        refused_ = ClientError::not_enough_memory;
        return false;
    }
}

/// Whether a server that reads slowly has acknowledged something since the last look, and has not
/// got all of it. libcurl can send no more meanwhile: the kernel calls a socket writable when a
/// third of its buffer is free.
bool Transfer::server_takes_data() noexcept {
    const char* peer = nullptr;
    long peer_port = 0;
    long own_port = 0;
    // Not CURLINFO_ACTIVESOCKET, which is that of a transfer that has ended.
    curl_easy_getinfo(easy_.get(), CURLINFO_PRIMARY_IP, &peer);
    curl_easy_getinfo(easy_.get(), CURLINFO_PRIMARY_PORT, &peer_port);
    curl_easy_getinfo(easy_.get(), CURLINFO_LOCAL_PORT, &own_port);
    if (peer == nullptr) {
        return false;
    }
    const curl_socket_t socket =
        multi_->find_socket(peer, static_cast<int>(peer_port), static_cast<int>(own_port));
    int queued = 0;
    if (socket == CURL_SOCKET_BAD || ::ioctl(socket, SIOCOUTQ, &queued) != 0 || queued == 0) {
        return false;
    }
    const std::uint64_t before = acknowledged_;
    acknowledged_ = penstock::detail::acknowledged_bytes(socket).value_or(before);
    return acknowledged_ > before;
}

void Transfer::on_idle(io::Work& work) {
    auto& self = io::owner_of<&Transfer::idle_timer_>(io::owner_of<&io::Timer::work>(work));
    if (self.awaits_program()) {
        return; // starts again with the transfer
    }
    const std::chrono::milliseconds limit = self.request_.timeouts.idle;
    if (penstock::detail::deadline_after(limit, self.last_byte_) > io::monotonic_now()) {
        if (!self.set_idle_timer()) {
            self.finish(CURLE_OUT_OF_MEMORY);
        }
        return;
    }
    if (self.server_takes_data()) {
        self.last_byte_ = io::monotonic_now();
        if (!self.set_idle_timer()) {
            self.finish(CURLE_OUT_OF_MEMORY);
        }
        return;
    }
    self.fail(failed_request(ClientError::timed_out, self.request_.name,
                             "no byte for " + std::to_string(limit.count()) + " ms"));
}

} // namespace penstock::http::detail
