// Handlers of fork() around the CPU allocator's own.
#pragma once

namespace mezzo::detail {

/// Handlers with the meaning of pthread_atfork's arguments.
struct ForkHandlers {
  void (*prepare)() = nullptr;
  void (*parent)() = nullptr;
  void (*child)() = nullptr;
};
/// Called outside of the allocator's own, so that what `prepare` waits for may still ask for memory. Set
/// while the library is loaded. (pthread_atfork's order is the order of registration, which no two files can
/// agree on at that time; and later is too late: it waits for a fork() under way, whose child then finds a
/// static object half made and waits for it for ever.)
extern constinit ForkHandlers handlers_around_allocator;

}  // namespace mezzo::detail
