/// WebSocket clients and servers: `penstock::ws::WebSocket`, `penstock::ws::Server`,
/// `penstock::ws::WebSocketSession`.
#pragma once

#include <penstock/ws/backoff.hpp>
#include <penstock/ws/callbacks.hpp>
#include <penstock/ws/compression.hpp>
#include <penstock/ws/deflate.hpp>
#include <penstock/ws/errors.hpp>
#include <penstock/ws/message.hpp>
#include <penstock/ws/options.hpp>
#include <penstock/ws/server.hpp>
#include <penstock/ws/shared_message.hpp>
#include <penstock/ws/slow_reader.hpp>
#include <penstock/ws/topics.hpp>
#include <penstock/ws/upgrade.hpp>
#include <penstock/ws/web_socket.hpp>
#include <penstock/ws/web_socket_session.hpp>
