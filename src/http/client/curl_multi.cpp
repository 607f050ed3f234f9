#include "http/client/curl_multi.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <penstock/io/owner_of.hpp>

#include "http/client/transfer.hpp"

namespace penstock::http::detail {

namespace {

void initialise_libcurl() {
    // Since libcurl 7.84 any thread may be the first.
    static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (initialised != CURLE_OK) {
        throw std::runtime_error(std::string("http::Client: libcurl cannot be initialised: ") +
                                 curl_easy_strerror(initialised));
    }
}

long as_long(std::size_t value) noexcept {
    constexpr auto largest = std::size_t{std::numeric_limits<int>::max()};
    return static_cast<long>(std::min(value, largest));
}

/// Before its HTTP/2 was rewritten in 8.1, libcurl loses bytes of a response if a request beside it
/// on the connection continues with a body that was paused. Found with 7.88.1. Tried: HTTP/1.1 for
/// such requests only, but 7.88.1 confuses requests of both versions in one multi handle.
std::size_t streams_of(const ClientOptions& options) noexcept {
    const bool is_old = curl_version_info(CURLVERSION_NOW)->version_num < 0x080100;
    return is_old ? 1 : options.streams_per_connection;
}

/// One end of a connection.
class Address {
public:
    template <typename Query> Address(int socket, Query query) noexcept {
        socklen_t size = sizeof storage_;
        if (query(socket, reinterpret_cast<sockaddr*>(&storage_), &size) != 0) {
            storage_.ss_family = AF_UNSPEC;
        }
    }

    [[nodiscard]] int port() const noexcept {
        switch (storage_.ss_family) {
        case AF_INET:
            return ntohs(reinterpret_cast<const sockaddr_in&>(storage_).sin_port);
        case AF_INET6:
            return ntohs(reinterpret_cast<const sockaddr_in6&>(storage_).sin6_port);
        default:
            return 0;
        }
    }

    [[nodiscard]] bool is_host(std::string_view text) const noexcept {
        const bool is_ipv4 = storage_.ss_family == AF_INET;
        const void* host =
            is_ipv4
                ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(storage_).sin_addr)
                : &reinterpret_cast<const sockaddr_in6&>(storage_).sin6_addr;
        std::array<char, INET6_ADDRSTRLEN> own{};
        return ::inet_ntop(storage_.ss_family, host, own.data(), own.size()) != nullptr &&
               text == own.data();
    }

private:
    sockaddr_storage storage_{};
};

void check(const ClientOptions& options) {
    using std::chrono::milliseconds;
    const ClientTimeouts& limits = options.timeouts;
    if (limits.connect < milliseconds(0) || limits.whole < milliseconds(0) ||
        limits.idle < milliseconds(0) || options.idle_connection_age < milliseconds(0)) {
        throw std::invalid_argument("http::Client: a time limit is negative; use 0 for no limit");
    }
    if (options.buffer == 0) {
        throw std::invalid_argument("http::Client: ClientOptions::buffer is 0; use at least 1");
    }
    for (const std::string* text :
         {&options.user_agent, &options.proxy.url, &options.proxy.except}) {
        if (text->find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) {
            throw std::invalid_argument("http::Client: an option has a line break; remove it");
        }
    }
}

} // namespace

CurlMulti::CurlMulti(ClientOptions options)
    : LoopMember(&on_loop_end), options_(std::move(options)) {
    check(options_);
    initialise_libcurl();
    share_.reset(curl_share_init());
    multi_.reset(curl_multi_init());
    if (!share_ || !multi_) {
        throw std::bad_alloc();
    }
    // One thread at a time uses the share, so it needs no locks.
    curl_share_setopt(share_.get(), CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    if (options_.cookies) {
        curl_share_setopt(share_.get(), CURLSHOPT_SHARE, CURL_LOCK_DATA_COOKIE);
    }
    CURLM* multi = multi_.get();
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, &on_socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, &on_timer);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, this);
    curl_multi_setopt(multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
    curl_multi_setopt(multi, CURLMOPT_MAX_HOST_CONNECTIONS, as_long(options_.connections_per_host));
    curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, as_long(options_.connections));
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, as_long(options_.idle_connections));
    curl_multi_setopt(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, as_long(streams_of(options_)));
}

CurlMulti::~CurlMulti() {
    close();
}

void CurlMulti::close() noexcept {
    closed_ = true;
    cancel_all();
    multi_.reset(); // closes the kept connections, which calls back
    watches_.clear();
}

void CurlMulti::cancel_all() noexcept {
    while (Transfer* transfer = transfers_.front()) {
        transfer->fail(std::make_error_code(std::errc::operation_canceled));
    }
    if (loop_ != nullptr) { // a transfer could not be started
        detach();
    }
}

void CurlMulti::on_loop_end(LoopMember& member) noexcept {
    static_cast<CurlMulti&>(member).cancel_all();
}

void CurlMulti::add(Transfer& transfer) {
    EventLoop& loop = EventLoop::current();
    if (loop_ != nullptr && loop_ != &loop) {
        throw std::logic_error("http::Client: requests run on another loop; use a client per loop");
    }
    if (loop_ == nullptr) {
        attach(loop);
    }
    transfers_.push_back(transfer);
    if (const CURLMcode code = curl_multi_add_handle(multi_.get(), transfer.easy());
        code != CURLM_OK) {
        transfers_.remove(transfer);
        if (transfers_.empty()) {
            detach();
        }
        if (code == CURLM_OUT_OF_MEMORY) {
            throw std::bad_alloc();
        }
        throw std::logic_error(std::string("http::Client: ") + curl_multi_strerror(code));
    }
}

void CurlMulti::remove(Transfer& transfer) noexcept {
    curl_multi_remove_handle(multi_.get(), transfer.easy());
    transfers_.remove(transfer);
    if (transfers_.empty()) {
        detach();
    }
}

/// libcurl may still watch a kept connection.
void CurlMulti::attach(EventLoop& loop) {
    loop_ = &loop;
    loop.add(*this);
    for (auto& [descriptor, watch] : watches_) {
        (void)start(watch); // a connection that cannot be watched fails by its time limit
    }
    start_timer();
}

void CurlMulti::detach() noexcept {
    for (auto& [descriptor, watch] : watches_) {
        loop_->poller().remove(watch);
    }
    loop_->timers().cancel(timer_);
    loop_->remove(*this);
    loop_ = nullptr;
}

void CurlMulti::start_timer() {
    loop_->timers().cancel(timer_);
    if (deadline_ != no_deadline) {
        loop_->timers().add(timer_, deadline_);
    }
}

std::error_code CurlMulti::start(SocketWatch& watch) noexcept {
    return loop_->poller().add(watch, watch.descriptor, watch.wanted);
}

int CurlMulti::on_socket(CURL* /*easy*/, curl_socket_t socket, int what, void* data,
                         void* assigned) noexcept {
    auto& self = *static_cast<CurlMulti*>(data);
    auto* watch = static_cast<SocketWatch*>(assigned);
    if (what == CURL_POLL_REMOVE) {
        if (watch != nullptr) {
            if (self.loop_ != nullptr) {
                self.loop_->poller().remove(*watch);
            }
            self.watches_.erase(socket);
            curl_multi_assign(self.multi_.get(), socket, nullptr);
        }
        return 0;
    }
    const std::uint32_t wanted = ((what & CURL_POLL_IN) != 0 ? io::readable : 0U) |
                                 ((what & CURL_POLL_OUT) != 0 ? io::writable : 0U);
    try {
        if (watch != nullptr) {
            watch->wanted = wanted;
            return self.loop_ == nullptr || !self.loop_->poller().update(*watch, wanted) ? 0 : -1;
        }
        watch = &self.watches_.try_emplace(socket, self, socket).first->second;
    } catch (...) {
        return -1; // libcurl fails all transfers
    }
    watch->wanted = wanted;
    curl_multi_assign(self.multi_.get(), socket, watch);
    return self.loop_ == nullptr || !self.start(*watch) ? 0 : -1;
}

int CurlMulti::on_timer(CURLM* /*multi*/, long timeout_ms, void* data) noexcept {
    auto& self = *static_cast<CurlMulti*>(data);
    self.deadline_ =
        timeout_ms < 0 ? no_deadline : io::monotonic_now() + std::int64_t{timeout_ms} * 1'000'000;
    try {
        if (self.loop_ != nullptr) {
            self.start_timer();
        }
    } catch (...) {
        return -1;
    }
    return 0;
}

curl_socket_t CurlMulti::open_socket(void* data, curlsocktype /*purpose*/,
                                     curl_sockaddr* address) noexcept {
    auto& self = *static_cast<CurlMulti*>(data);
    try {
        self.sockets_.reserve(self.sockets_.size() + 1);
    } catch (...) {
        return CURL_SOCKET_BAD;
    }
    // Without CLOEXEC, child processes would keep the connections open.
    const curl_socket_t socket = ::socket(
        address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->protocol);
    if (socket >= 0) {
        self.sockets_.push_back({.socket = socket});
    }
    return socket;
}

int CurlMulti::close_socket(void* data, curl_socket_t socket) noexcept {
    // libcurl asks to stop watching before it closes. Where it does not, a registration would be
    // left behind.
    auto& self = *static_cast<CurlMulti*>(data);
    const auto found = self.watches_.find(socket);
    if (found != self.watches_.end() && self.loop_ != nullptr) {
        self.loop_->poller().remove(found->second);
    }
    std::erase_if(self.sockets_,
                  [socket](const OpenSocket& open) { return open.socket == socket; });
    return ::close(socket);
}

curl_socket_t CurlMulti::find_socket(std::string_view peer, int peer_port, int own_port) noexcept {
    for (OpenSocket& open : sockets_) {
        if (open.own_port == 0) {
            open.own_port = Address(open.socket, &::getsockname).port();
        }
        if (open.own_port == own_port) { // sockets to several peers may have the same
            const Address address(open.socket, &::getpeername);
            if (address.port() == peer_port && address.is_host(peer)) {
                return open.socket;
            }
        }
    }
    return CURL_SOCKET_BAD;
}

void CurlMulti::on_socket_ready(io::Watch& base, std::uint32_t events) {
    // The call may destroy the watch.
    auto& watch = static_cast<SocketWatch&>(base);
    const bool ended = (events & (io::hung_up | io::failed)) != 0;
    const bool in = (events & io::readable) != 0 || ended;
    const bool out = (events & io::writable) != 0 || ended;
    watch.multi.act(watch.descriptor,
                    (in && (watch.wanted & io::readable) != 0 ? CURL_CSELECT_IN : 0) |
                        (out && (watch.wanted & io::writable) != 0 ? CURL_CSELECT_OUT : 0));
}

void CurlMulti::on_due(io::Work& work) {
    auto& self = io::owner_of<&CurlMulti::timer_>(io::owner_of<&io::Timer::work>(work));
    self.deadline_ = no_deadline;
    self.act(CURL_SOCKET_TIMEOUT, 0);
}

void CurlMulti::act(curl_socket_t socket, int events) {
    int running = 0;
    const CURLMcode code = curl_multi_socket_action(multi_.get(), socket, events, &running);
    collect_finished();
    if (code != CURLM_OK) {
        // A callback has failed, for want of memory. libcurl is usable again without transfers.
        while (Transfer* transfer = transfers_.front()) {
            transfer->finish(CURLE_OUT_OF_MEMORY);
        }
    }
}

void CurlMulti::collect_finished() {
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
        if (message->msg == CURLMSG_DONE) {
            void* data = nullptr;
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &data);
            static_cast<Transfer*>(data)->finish(message->data.result); // frees the message
        }
    }
}

} // namespace penstock::http::detail
