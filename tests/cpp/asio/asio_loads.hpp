#pragma once

#include <cstdint>
#include <string>

#include "coro/support/counted_steps.hpp"

/// The loads of latency_test.cpp in the way in which a program with Asio writes them: coroutines on
/// an `io_context` of one thread.
namespace penstock::testing::asio_loads {

// Each returns the most steps of a load that an event has waited for.

/// Tasks that are always ready, and work for `work_ns` in each turn.
[[nodiscard]] int ready_tasks(CountedSteps::Event event, int tasks, std::int64_t work_ns);
/// A connection of which there is always more to read than a step takes.
[[nodiscard]] int flood(CountedSteps::Event event, const std::string& bytes);
/// The same through TLS. The files are those of the server.
[[nodiscard]] int tls_flood(CountedSteps::Event event, const std::string& bytes,
                            const std::string& certificate_file, const std::string& key_file);
/// Requests that end with an empty line, each of which is a step and gets `answer`.
[[nodiscard]] int pipelined_requests(CountedSteps::Event event, const std::string& requests,
                                     const std::string& answer);
/// Masked frames of WebSocket with less than 126 bytes, each of which is a step.
[[nodiscard]] int web_socket_flood(CountedSteps::Event event, const std::string& frames);

} // namespace penstock::testing::asio_loads
