#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/http/client_request.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

#include "http/client/redirect.hpp"
#include "http/client/transfer.hpp"

namespace penstock::http::detail {

/// A request with its body and its redirects, and the transfer of its current or last attempt.
///
/// Owns the request, so that its body can be sent again to where a redirect leads, and the
/// transfer, which refers to it: hence it does not move. A redirect replaces the transfer; what
/// `transfer` has returned is then gone. After `start` there are no more redirects.
///
/// Cancellation: destroying it ends the transfer. A part of the body that is being read is not
/// lost when the transfer changes first: `read_` keeps its outcome.
///
/// Thread safety: only on the thread of the client's loop. One task at a time.
class Exchange {
public:
    /// Sends the request until the head of a response is there that is not to be followed.
    [[nodiscard]] static Task<Result<std::unique_ptr<Exchange>>>
    start(std::shared_ptr<CurlMulti> multi, ClientRequest request,
          std::optional<std::uint64_t> most = std::nullopt);

    Exchange(std::shared_ptr<CurlMulti> multi, ClientRequest request);
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

    [[nodiscard]] const Transfer& transfer() const noexcept { return *transfer_; }
    [[nodiscard]] const std::string& url() const noexcept { return url_.shown; }
    /// Method and URL, for messages.
    [[nodiscard]] std::string name() const;
    [[nodiscard]] std::size_t redirects() const noexcept { return redirects_; }

    /// As `ClientResponse::read`.
    [[nodiscard]] Task<Result<std::size_t>> read(MutableBytes into);

private:
    /// Sends `request_` until the head of a response is there.
    [[nodiscard]] Task<Result<>> send();
    /// Waits for a change of the transfer, and reads the next part of the request's body if that is
    /// needed.
    [[nodiscard]] Task<Result<>> progress();
    [[nodiscard]] Task<Result<>> progress_with(BodySource& source);
    [[nodiscard]] Task<void> read_part(BodySource& source);
    /// Reads a short body, so that its connection can be used again.
    [[nodiscard]] Task<Result<>> discard_body();
    [[nodiscard]] Result<> check() const;
    [[nodiscard]] Result<> redirect_to(const std::string& location);

    std::shared_ptr<CurlMulti> multi_;
    ClientRequest request_;
    ClientTimeouts timeouts_;
    io::MonotonicTime deadline_ = 0; ///< of the whole; 0 is none
    ParsedUrl url_;
    std::size_t redirects_ = 0;

    std::vector<std::byte> part_;             ///< of the request's body
    std::optional<Result<std::size_t>> read_; ///< the outcome of `read_part`
    unsigned body_attempt_ = 0;
    bool body_begun_ = false;
    std::optional<std::uint64_t> most_; ///< bytes of the response, if all of it is collected

    std::unique_ptr<Transfer> transfer_; ///< refers to `request_`
};

} // namespace penstock::http::detail
