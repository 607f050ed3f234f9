/// The HTTP/1.1 server: `penstock::http::Server`.
///
/// The client has a library and headers of its own: `<penstock/http/client.hpp>`. With nlohmann's
/// JSON, include `<penstock/http/nlohmann_json.hpp>` too.
#pragma once

#include <penstock/http/access_log.hpp>
#include <penstock/http/content.hpp>
#include <penstock/http/cookie.hpp>
#include <penstock/http/errors.hpp>
#include <penstock/http/event_stream.hpp>
#include <penstock/http/filter/authorization.hpp>
#include <penstock/http/filter/chain.hpp>
#include <penstock/http/filter/compression.hpp>
#include <penstock/http/filter/conditional.hpp>
#include <penstock/http/filter/cors.hpp>
#include <penstock/http/filter/rate_limit.hpp>
#include <penstock/http/filter/security_headers.hpp>
#include <penstock/http/filter/time_limit.hpp>
#include <penstock/http/form.hpp>
#include <penstock/http/head.hpp>
#include <penstock/http/headers.hpp>
#include <penstock/http/json.hpp>
#include <penstock/http/method.hpp>
#include <penstock/http/metrics.hpp>
#include <penstock/http/open_connection.hpp>
#include <penstock/http/preconditions.hpp>
#include <penstock/http/refusal.hpp>
#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>
#include <penstock/http/server.hpp>
#include <penstock/http/server_options.hpp>
#include <penstock/http/static_files.hpp>
#include <penstock/http/status.hpp>
#include <penstock/http/status_error.hpp>
#include <penstock/http/upgrade.hpp>
