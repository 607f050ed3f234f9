#pragma once

#include <penstock/codec/http/head.hpp>
#include <penstock/http/headers.hpp>
#include <penstock/http/status.hpp>

namespace penstock::http {

/// The head of a received request: views of its text.
using RequestHead = codec::http::RequestHead;

/// The head of a response: what a server's handler sets and a client receives. Owns its text.
struct ResponseHead {
    Status status = Status::ok;
    Headers headers;
};

} // namespace penstock::http
