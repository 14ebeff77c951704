// Who shares a step: rows of all schemes that join, leave and change places in the middle of their
// generation; and windows at different phases.
#include <algorithm>
#include <memory>

#include "engine/verify/verifier.h"
#include "numerics/philox.h"

namespace gyre::engine::verification {
namespace {

uint32_t random_below(uint64_t stream, uint64_t counter, uint64_t bound) {
  return static_cast<uint32_t>(numerics::random_bits(3, stream, counter, 0) % bound);
}

struct Guest {
  std::unique_ptr<TestRow> row;
  const TestScheme* scheme = nullptr;
  uint32_t first = 0;
  uint32_t leaves_at = 0;  // tokens after which it goes, finished or not
};

}  // namespace

Status Verifier::membership() {
  VerifyAxis axis{.name = "membership"};
  constexpr uint32_t kSeats = 6, kLength = 150;
  const auto kinds = static_cast<uint32_t>(schemes_.size());
  const uint32_t guests = std::max<uint32_t>(9, settings_.quick ? kinds : 2 * kinds);
  GYRE_ASSIGN(const std::unique_ptr<Runner> run, runner(*loaded_, kSeats * 32, kSeats));
  std::vector<Guest> seated;
  uint32_t joined = 0, left_early = 0, left_beside_others = 0, reordered = 0, mixed_steps = 0;
  for (uint32_t round = 0; joined < guests || !seated.empty(); ++round) {
    if (joined < guests && seated.size() < kSeats && (seated.empty() || round % 3 == 0)) {
      Guest guest;
      guest.scheme = &schemes_[joined % schemes_.size()];
      guest.first = random_below(1, joined, 40);
      guest.leaves_at = joined % 5 == 3 ? 90 : kLength;  // some give up
      GYRE_ASSIGN(TestRow row,
                  open_test_row(*run, guest.scheme->scheme, text(guest.first, kLength)));
      guest.row = std::make_unique<TestRow>(std::move(row));
      seated.insert(seated.begin() + random_below(2, round, seated.size() + 1), std::move(guest));
      ++joined;
    }
    if (seated.size() > 1 && round % 4 == 1) {
      std::rotate(seated.begin(), seated.begin() + 1 + random_below(4, round, seated.size() - 1),
                  seated.end());
      ++reordered;
    }
    std::vector<Feed> step;
    for (const Guest& guest : seated) {
      TestRow& row = *guest.row;
      // Mostly one token, as in generation; a prompt's chunk now and then.
      const uint32_t pace = row.done == 0 || round % 7 == 0 ? 1 + random_below(5, round, 31) : 1;
      step.push_back({&row, std::min(pace, guest.leaves_at - row.done)});
    }
    GYRE_TRY(feed(*run, step));
    mixed_steps += std::any_of(seated.begin(), seated.end(), [&](const Guest& guest) {
      return guest.scheme != seated.front().scheme;
    });
    for (size_t i = 0; i < seated.size();) {
      const Guest& guest = seated[i];
      if (guest.row->done < guest.leaves_at) {
        ++i;
        continue;
      }
      left_beside_others += seated.size() > 1;
      if (guest.leaves_at < kLength) {
        ++left_early;
      } else {
        GYRE_TRY(compare(axis, guest.scheme->name + " from " + std::to_string(guest.first),
                         guest.row->digest.hex(), expected(*guest.scheme, guest.first, kLength)));
      }
      seated.erase(seated.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  axis.evidence += "; " + std::to_string(joined) + " joined, " + std::to_string(left_early) +
                   " left early, " + std::to_string(reordered) + " reorderings, " +
                   std::to_string(mixed_steps) + " steps of several schemes";
  axis.exercised = joined == guests && left_early > 0 && left_beside_others > 2 && reordered > 5 &&
                   (schemes_.size() == 1 || mixed_steps > 20);
  finish(std::move(axis));
  return {};
}

// Rows that cross a window's end, wrap after wrap, at different phases of page and window.
Status Verifier::ring() {
  VerifyAxis axis{.name = "ring"};
  const uint32_t window = loaded_->model().info().window;
  const uint32_t rows = settings_.quick ? 3 : 6, steps = settings_.quick ? 40 : 90;
  const uint32_t length = std::min(size(), 2 * window + 200);
  uint32_t moved_on = 0;
  for (const TestScheme& scheme : schemes_) {
    const bool windows_are_coded = scheme.scheme.kind() == kv::SchemeKind::affine_uniform ||
                                   scheme.scheme.kind() == kv::SchemeKind::affine_config;
    if (!windows_are_coded && &scheme != &first_scheme()) continue;  // bf16 there, as the first
    if (settings_.quick && scheme.name == "kv4") continue;           // as kv4-g32
    GYRE_ASSIGN(const std::unique_ptr<Runner> run, runner(*loaded_, kChunk, rows));
    std::vector<TestRow> tests;
    for (uint32_t r = 0; r < rows; ++r) {
      GYRE_ASSIGN(TestRow row, open_test_row(*run, scheme.scheme, text(0, length)));
      tests.push_back(std::move(row));
      // The first wrap falls into the steps below, at another step for each row.
      const uint32_t before = std::min(13 * r + 1, window);
      GYRE_TRY(feed_until(*run, tests[r], std::min(window + 5 - before, length), 61 + 7 * r));
    }
    for (uint32_t i = 0; i < steps; ++i) {
      std::vector<Feed> step;
      for (TestRow& row : tests)
        if (row.left() > 0) step.push_back({&row, 1});
      if (!step.empty()) GYRE_TRY(feed(*run, step));
    }
    for (uint32_t r = 0; r < rows; ++r) {
      TestRow& row = tests[r];
      GYRE_TRY(feed_until(*run, row, length, std::clamp(window / 2 + 7 * r, 1u, kChunk)));
      moved_on += row.kv.minimum_reusable_length() > scheme.scheme.start();
      GYRE_TRY(compare(axis, scheme.name + " phase " + std::to_string(r), row.digest.hex(),
                       expected(scheme, 0, length)));
    }
  }
  axis.exercised = moved_on == axis.cases && length > window + steps;
  finish(std::move(axis));
  return {};
}

}  // namespace gyre::engine::verification
