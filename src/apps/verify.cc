// gyre verify: the contract's matrix on this machine.

#include <cstdio>

#include "apps/commands.h"
#include "apps/common.h"
#include "engine/verify.h"

namespace gyre::apps {

Result<int> run_verify(const Arguments& arguments) {
  ModelFlags model;
  engine::VerifySettings settings;
  Flags flags("verify");
  model.add_to(flags);
  flags.toggle("--quick", &settings.quick, "fewer cases, a shorter text");
  GYRE_TRY(flags.parse(arguments));
  if (flags.wants_help()) return std::fputs(flags.help().c_str(), stdout), 0;
  GYRE_ASSIGN(settings.load, model.settings());
  if (flags.was_given("--kv")) {
    GYRE_ASSIGN(settings.scheme, model.scheme());
  }
  settings.progress = [](const std::string& axis, const std::string& text) {
    std::fprintf(stderr, "%-12s %s\n", axis.c_str(), text.c_str());
  };
  GYRE_ASSIGN(const engine::VerifyReport report, engine::verify(settings));
  Json axes = Json::array();
  for (const engine::VerifyAxis& axis : report.axes)
    axes.push_back({{"name", axis.name},
                    {"cases", axis.cases},
                    {"exercised", axis.exercised},
                    {"equal", axis.equal},
                    {"evidence", axis.evidence}});
  if (model.json) {
    Json digests = Json::object(), refused = Json::object();
    for (const auto& [scheme, digest] : report.digests) digests[scheme] = digest;
    for (const auto& [scheme, why] : report.refused) refused[scheme] = why;
    print_json({{"model", report.model},
                {"digest", digests},
                {"refused", refused},
                {"positions", report.positions},
                {"axes", axes}});
  } else {
    std::printf("%s: %u positions\n", report.model.c_str(), report.positions);
    for (const auto& [scheme, digest] : report.digests)
      std::printf("%-20s %s\n", scheme.c_str(), digest.c_str());
    for (const auto& [scheme, why] : report.refused)
      std::printf("%-20s refused: %s\n", scheme.c_str(), why.c_str());
    for (const engine::VerifyAxis& axis : report.axes)
      std::printf("%-12s %2u cases %-14s %s\n", axis.name.c_str(), axis.cases,
                  axis.exercised ? "exercised" : "NOT EXERCISED",
                  axis.equal ? "equal" : "DIFFERENT");
  }
  return report.ok() ? 0 : 1;
}

}  // namespace gyre::apps
