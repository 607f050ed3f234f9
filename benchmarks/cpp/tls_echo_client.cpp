// The load of the TLS page: that of the echo page, over TLS 1.3.

#include "echo_load.hpp"

#include "tls_channel.hpp"

int main(int argc, char** argv) {
    return bench::run_client<bench::TlsChannel>("tls_echo_client", argc, argv);
}
