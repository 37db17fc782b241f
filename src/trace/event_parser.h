// One event's JSON to one Event of the model.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include <simdjson.h>

#include "epilogue/trace.h"
#include "trace/launch_index.h"

namespace epilogue::trace {

// Adds events to a Trace, in the order of the file. What cannot be used is counted, by what was wrong.
class EventParser {
 public:
  explicit EventParser(Trace& trace) : trace_(trace) {}

  // Adds the event, or counts why it cannot. Returns an error, and adds nothing, only where the JSON itself
  // is broken.
  simdjson::error_code add(simdjson::ondemand::object event);

  void count_problem(const std::string& what, int64_t count = 1) { problems_[what] += count; }
  // The same of what is lost with it: counts and times are of what is left.
  void count_loss(const std::string& what, int64_t count = 1) {
    count_problem(what, count);
    trace_.damaged = true;
  }

  // Adds what another parser read into its own trace, as if this one had read it.
  void absorb(const EventParser& part);

  // Once, after the last event: names the tracks and hands the problems to the trace.
  void finish();

 private:
  struct Fields;  // an event's JSON tokens
  struct TrackKey {
    int64_t process = 0, thread = 0;
    StringId label = 0;  // for a tid that is no number
    bool device = false;
    auto operator<=>(const TrackKey&) const = default;
  };
  template <class T>
  using IndexOf = std::unordered_map<T, uint32_t, size_t (*)(const T&)>;

  static simdjson::error_code read_fields(simdjson::ondemand::object event, Fields& fields);
  static simdjson::error_code read_args(simdjson::ondemand::object args, Fields& fields);
  void add_slice(const Fields& fields);
  void add_memory(const Fields& fields);
  void add_metadata(const Fields& fields);
  int64_t amount(
      std::string_view token);  // bytes or FLOPs: beyond what JSON holds exactly is counted, read as 0
  bool set_common(const Fields& fields, Event& event);
  void set_detail(const Fields& fields, Event& event);
  uint32_t track_of(const Fields& fields, bool device);
  TrackKey track_key(const Fields& fields, bool device);
  uint32_t index_of_track(const TrackKey& key);
  StringId intern(std::string_view string_token);
  uint32_t inputs_of(const Fields& fields, StringId op);
  Launch launch_of(const Fields& fields) const;

  Trace& trace_;
  std::map<TrackKey, uint32_t> tracks_;
  TrackKey last_track_key_[2];
  uint32_t last_track_[2] = {UINT32_MAX, UINT32_MAX};  // by device
  std::map<std::pair<int64_t, int64_t>, StringId> thread_names_;
  LaunchIndex launches_;
  IndexOf<OpInputs> op_inputs_{16, &hash_op_inputs};
  std::vector<uint32_t> last_inputs_;  // by op name: into Trace::op_inputs
  IndexOf<Work> work_{16, &hash_work};
  std::map<std::string, int64_t> problems_;

  static size_t hash_op_inputs(const OpInputs& inputs);
  static size_t hash_work(const Work& work);
};

}  // namespace epilogue::trace
