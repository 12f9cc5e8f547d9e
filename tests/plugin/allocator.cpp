// An allocator of a program's own: whoever frees its memory by another's `delete` is ended.
#include <cstdlib>
#include <new>

namespace {
constexpr std::size_t kMark = 16;
}

void* operator new(std::size_t size) {
  auto* const memory = static_cast<char*>(std::malloc(size + kMark));
  if (memory == nullptr) throw std::bad_alloc();
  return memory + kMark;
}
void operator delete(void* memory) noexcept {
  if (memory != nullptr) std::free(static_cast<char*>(memory) - kMark);
}
void operator delete(void* memory, std::size_t /*size*/) noexcept { operator delete(memory); }
