// The load of the HTTP pages, over TLS 1.3; see http_load.hpp.

#include "http_load.hpp"

#include "tls_channel.hpp"

int main(int argc, char** argv) {
    return bench::run_http_load<bench::TlsChannel>("tls_http_client", argc, argv);
}
