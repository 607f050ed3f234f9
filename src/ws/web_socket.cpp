#include <penstock/ws/web_socket.hpp>

namespace penstock::ws {

template class BasicWebSocket<AnyStream>;

} // namespace penstock::ws
