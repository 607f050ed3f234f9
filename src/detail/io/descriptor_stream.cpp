#include <penstock/detail/io/descriptor_stream.hpp>

#include <fcntl.h>

namespace penstock::detail {

Result<std::unique_ptr<Pollable>> adopt_nonblocking(OwnedDescriptor descriptor) {
    const int flags = ::fcntl(descriptor.get(), F_GETFL);
    if (flags < 0 || ((flags & O_NONBLOCK) == 0 &&
                      ::fcntl(descriptor.get(), F_SETFL, flags | O_NONBLOCK) != 0)) {
        return last_failure();
    }
    return Pollable::adopt(descriptor.release());
}

} // namespace penstock::detail
