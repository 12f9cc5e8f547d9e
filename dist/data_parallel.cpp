// DataParallel: a Reducer on the leaves of a model, and the calls before its forward.
#include "mezzo/dist/data_parallel.h"

#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/dist/detail/reducer.h"

namespace mezzo::dist {

DataParallel::DataParallel(nn::Module& model, const DataParallelOptions& options)
    : reducer_(make_ref<Reducer>(model, options)) {
  reducer_->attach();
}

DataParallel::~DataParallel() { reducer_->detach(); }

DataParallel::NoSync::NoSync(Ref<Reducer> reducer) : reducer_(std::move(reducer)) {
  ++reducer_->no_sync_depth_;
}
DataParallel::NoSync::~NoSync() { --reducer_->no_sync_depth_; }

DataParallel::NoSync DataParallel::no_sync() {
  if (reducer_->has_parts()) {
    throw StateError("no_sync", "a DataParallel without virtual_parts", "one in deterministic mode",
                     "leave it out: parts() backward calls are reduced together");
  }
  return NoSync(reducer_);
}

const Group& DataParallel::group() const noexcept { return reducer_->group(); }
int DataParallel::parts() const noexcept { return reducer_->parts(); }

std::vector<std::int64_t> DataParallel::bucket_bytes() const {
  std::vector<std::int64_t> bytes;
  for (const Bucket& bucket : reducer_->buckets_) bytes.push_back(bucket.bytes());
  return bytes;
}

}  // namespace mezzo::dist
