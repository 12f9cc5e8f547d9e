// This process's session: the group of all processes.
#include "mezzo/dist/init.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::dist {

namespace {

/// The open session's.
struct Place {
  Group world;
  int local_rank = 0, local_size = 1;
  bool is_open = false;
};

Place& place() {
  static auto& place = *new Place();  // never destroyed: threads may ask to the end
  return place;
}

}  // namespace

Group world() { return place().world; }
bool is_initialized() noexcept { return place().is_open; }
int rank() { return place().world.rank(); }
int world_size() { return place().world.size(); }
int local_rank() { return place().local_rank; }
int local_world_size() { return place().local_size; }

}  // namespace mezzo::dist
