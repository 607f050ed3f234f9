#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <vector>

#include <curl/curl.h>

#include <penstock/detail/io/loop_member.hpp>
#include <penstock/event_loop.hpp>
#include <penstock/http/client_options.hpp>
#include <penstock/io/intrusive_list.hpp>
#include <penstock/io/poller.hpp>
#include <penstock/io/timer_queue.hpp>

#include "http/client/curl_handles.hpp"

namespace penstock::http::detail {

class Transfer;

/// libcurl's multi interface on an event loop: what a `Client` and its responses share.
///
/// libcurl names the descriptors and the deadline that it waits for; the poller and the timers call
/// `curl_multi_socket_action`. That calls back into transfers, which change their state and
/// schedule their waiting tasks. No task runs inside a call of libcurl, so nothing that libcurl
/// uses is destroyed in one.
///
/// While no transfer runs, no descriptor and no timer is registered, and the next transfer may run
/// on another loop. If the loop ends before, its transfers end with `operation_canceled`.
class CurlMulti : private penstock::detail::LoopMember {
public:
    explicit CurlMulti(ClientOptions options);
    CurlMulti(const CurlMulti&) = delete;
    CurlMulti& operator=(const CurlMulti&) = delete;
    ~CurlMulti();

    [[nodiscard]] const ClientOptions& options() const noexcept { return options_; }
    [[nodiscard]] CURLSH* share() const noexcept { return share_.get(); }

    /// The loop of the running transfers. There must be one.
    [[nodiscard]] EventLoop& loop() const noexcept { return *loop_; }

    /// Ends all transfers, closes all connections, and refuses later transfers.
    void close() noexcept;
    [[nodiscard]] bool closed() const noexcept { return closed_; }

    /// Starts a transfer on this thread's loop. Throws `std::logic_error` if others run on another
    /// loop, and `std::bad_alloc`.
    void add(Transfer& transfer);

    /// Takes out a transfer, in whatever state it is.
    void remove(Transfer& transfer) noexcept;

    /// For `CURLOPT_OPENSOCKETFUNCTION` and `CURLOPT_CLOSESOCKETFUNCTION`.
    static curl_socket_t open_socket(void* self, curlsocktype purpose,
                                     curl_sockaddr* address) noexcept;
    static int close_socket(void* self, curl_socket_t socket) noexcept;

    /// The connected socket with these addresses, or -1. libcurl itself does not tell before the
    /// request is sent.
    [[nodiscard]] curl_socket_t find_socket(std::string_view peer, int peer_port,
                                            int own_port) noexcept;

private:
    struct SocketWatch : io::Watch {
        SocketWatch(CurlMulti& owner, int socket) noexcept
            : Watch(&on_socket_ready), multi(owner), descriptor(socket) {}

        CurlMulti& multi;
        int descriptor;
        std::uint32_t wanted = 0;
    };

    struct OpenSocket {
        curl_socket_t socket;
        int own_port = 0; ///< once it is known
    };

    static int on_socket(CURL* easy, curl_socket_t socket, int what, void* self,
                         void* watch) noexcept;
    static int on_timer(CURLM* multi, long timeout_ms, void* self) noexcept;
    static void on_socket_ready(io::Watch& watch, std::uint32_t events);
    static void on_due(io::Work& work);
    static void on_loop_end(LoopMember& member) noexcept;

    void attach(EventLoop& loop);
    void detach() noexcept;
    void cancel_all() noexcept;
    void start_timer();
    [[nodiscard]] std::error_code start(SocketWatch& watch) noexcept;
    void act(curl_socket_t socket, int events);
    void collect_finished();

    ClientOptions options_;
    ShareHandle share_;
    std::unordered_map<int, SocketWatch> watches_; ///< by descriptor; libcurl has their addresses
    std::vector<OpenSocket> sockets_;
    io::IntrusiveList<Transfer> transfers_;
    EventLoop* loop_ = nullptr;
    io::Timer timer_{&on_due};
    io::MonotonicTime deadline_ = no_deadline;
    bool closed_ = false;
    MultiHandle multi_;

    static constexpr io::MonotonicTime no_deadline = -1;
};

} // namespace penstock::http::detail
