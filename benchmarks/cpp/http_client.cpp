// The load of the HTTP pages; see http_load.hpp.

#include "http_load.hpp"
#include "plain_channel.hpp"

int main(int argc, char** argv) {
    return bench::run_http_load<bench::PlainChannel>("http_client", argc, argv);
}
