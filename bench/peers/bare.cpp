// The ceilings: copies of as many bytes as an op moves, and products and convolutions by bare oneDNN calls,
// each at its fastest.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "products.h"
#include "worker.h"

#ifdef MEZZO_HAVE_ONEDNN
#include "peers/bare_conv.h"
#endif

namespace bench {
namespace {

/// `bytes` are what is read and written together: half of them each.
void add_copies(Worker& worker) {
  for (const int mib : {16, 24, 32, 48, 64, 1000, 1400}) {
    worker.add("copy_" + std::to_string(mib) + "MiB", [mib] {
      const std::int64_t bytes = std::int64_t{mib} << 19;
      return [from = std::vector<char>(static_cast<std::size_t>(bytes), 1),
              to = std::make_shared<std::vector<char>>(static_cast<std::size_t>(bytes)), bytes] {
        constexpr std::int64_t kChunk = 1 << 18;
#pragma omp parallel for schedule(static)
        for (std::int64_t at = 0; at < bytes; at += kChunk) {
          std::memcpy(to->data() + at, from.data() + at,
                      static_cast<std::size_t>(std::min(kChunk, bytes - at)));
        }
      };
    });
  }
}

#ifdef MEZZO_HAVE_ONEDNN

std::shared_ptr<std::vector<float>> numbers(std::int64_t count) {
  auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values->size(); ++i)
    (*values)[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
  return values;
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                      const dnnl::memory::desc& b, const dnnl::memory::desc& c) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c};
#else
  return {dnnl::matmul::desc(a, b, c), engine};
#endif
}

Body matmul_primitive(const Product& p, dnnl::memory::data_type type) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  using Tag = dnnl::memory::format_tag;
  const dnnl::memory::desc a({p.m, p.k}, type, Tag::ab), b({p.k, p.n}, type, Tag::ab),
      c({p.m, p.n}, type, Tag::ab);
  const dnnl::memory::desc wide_a({p.m, p.k}, dnnl::memory::data_type::f32, Tag::ab),
      wide_b({p.k, p.n}, dnnl::memory::data_type::f32, Tag::ab);
  dnnl::stream stream(engine);
  const auto filled = [&](const dnnl::memory::desc& wide, const dnnl::memory::desc& desc) {
    const auto values = numbers(static_cast<std::int64_t>(wide.get_size() / sizeof(float)));
    dnnl::memory from(wide, engine, values->data()), to(desc, engine);
    dnnl::reorder(from, to).execute(stream, from, to);
    stream.wait();
    return to;
  };
  const std::unordered_map<int, dnnl::memory> arguments{{DNNL_ARG_SRC, filled(wide_a, a)},
                                                        {DNNL_ARG_WEIGHTS, filled(wide_b, b)},
                                                        {DNNL_ARG_DST, dnnl::memory(c, engine)}};
  return [primitive = dnnl::matmul(describe(engine, a, b, c)), arguments, stream]() mutable {
    primitive.execute(stream, arguments);
    stream.wait();
  };
}

void add_products(Worker& worker) {
  for (const Product& p : kProducts) {
    const std::string name = std::string("gemm_") + p.name;
    worker.add(name + "_sgemm/f32", [p]() -> Body {
      return [p, a = numbers(p.m * p.k), b = numbers(p.k * p.n), c = numbers(p.m * p.n)] {
        dnnl_sgemm('N', 'N', p.m, p.n, p.k, 1, a->data(), p.k, b->data(), p.n, 0, c->data(), p.n);
      };
    });
    worker.add(name + "/f32", [p] { return matmul_primitive(p, dnnl::memory::data_type::f32); });
    worker.add(name + "/bf16", [p] { return matmul_primitive(p, dnnl::memory::data_type::bf16); });
  }
}

std::string about() {
  const dnnl_version_t* const version = dnnl_version();
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch) + " and memcpy";
}
#else
void add_products(Worker&) {}
void add_convolutions(Worker&) {}
std::string about() { return "memcpy (no oneDNN found)"; }
#endif

}  // namespace
}  // namespace bench

int main() {
  bench::Worker worker(bench::about());
  bench::add_copies(worker);
  bench::add_products(worker);
  bench::add_convolutions(worker);
  return worker.run();
}
