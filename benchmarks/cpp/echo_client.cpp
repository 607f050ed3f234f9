// The load of the echo, unix and udp pages.

#include "echo_load.hpp"
#include "plain_channel.hpp"

int main(int argc, char** argv) {
    return bench::run_client<bench::PlainChannel>("echo_client", argc, argv);
}
