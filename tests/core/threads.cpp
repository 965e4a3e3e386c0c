// Many threads on one model under the thread sanitizer (`make test-core-threads`): tables are built whole and never
// changed, so kernels of several threads may read them, and several threads may build tables of one forest.
#include <cstdio>
#include <mutex>
#include <thread>

#include "instruction_sets.h"
#include "random_case.h"

namespace treeinner {
namespace {

// The first call of TreeSHAP by several threads, as treeinner/compiled/forest.py makes it: a lock around building.
class LazyShap {
 public:
  explicit LazyShap(const Model& m) : model_(m) {}
  const ShapArrays* get() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!made_) made_ = std::make_unique<ShapArrays>(model_.forest, model_.cover.data(), gauss_legendre);
    return made_.get();
  }

 private:
  const Model& model_;
  std::mutex mutex_;
  std::unique_ptr<ShapArrays> made_;
};

bool same_from_all_threads(uint64_t seed, const Kernels& kernels) {
  const Shape shape{1, 9, 2, 1, 6, 60, 9, true, true, true};
  const Case c = random_case(seed, shape, 300);
  const Results alone = results(c, kernels);
  LazyShap lazy(*c.model);
  std::vector<Results> found(4);
  std::vector<std::thread> threads;
  for (Results& mine : found) threads.emplace_back([&] { mine = results(c, kernels, lazy.get()); });
  for (std::thread& thread : threads) thread.join();
  bool same = true;
  for (const Results& other : found)
    same = same && same_bits(other.shap, alone.shap) && same_bits(other.path, alone.path) &&
           same_bits(other.boosted[0].sums, alone.boosted[0].sums) && same_bits(other.shares[0], alone.shares[0]) &&
           same_bits(other.second_pass[0].sums, alone.second_pass[0].sums) &&
           same_bits(other.permuted, alone.permuted) && same_bits(other.residuals[3], alone.residuals[3]);
  return same;
}

}  // namespace
}  // namespace treeinner

int main() {
  using namespace treeinner;
  int n_failed = 0;
  for (const InstructionSet& set : instruction_sets()) {
    int n_differ = 0;
    for (uint64_t seed = 0; seed < 10; ++seed) n_differ += !same_from_all_threads(seed, *set.kernels);
    std::printf("threads: %s: %d of 10 models differ\n", set.kernels->name, n_differ);
    n_failed += n_differ;
  }
  return n_failed != 0;
}
