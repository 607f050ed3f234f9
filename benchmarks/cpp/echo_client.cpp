// The load of the echo and unix pages.

#include "echo_load.hpp"
#include "plain_channel.hpp"

int main(int argc, char** argv) {
    return bench::run_client<bench::PlainChannel>("echo_client", argc, argv);
}
