// Serves trace files to the Perfetto UI, on this machine alone.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace epilogue::trace {

struct ServeOptions {
  int port = 9001;  // the only one the Perfetto UI may fetch from; 0: any free one, for tests
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

class TraceServer {
 public:
  // Opens the port on 127.0.0.1. Throws Error when a file cannot be read or the port is taken.
  explicit TraceServer(const std::vector<std::string>& paths, const ServeOptions& options = {});
  ~TraceServer();

  int port() const;
  // To open in a browser, one for each file, in their order: the Perfetto UI with the file's address,
  // "http://127.0.0.1:9001/mlp.json.gz".
  std::vector<std::string> links() const;

  // Answers requests for these files, and 404 to others, until each was fetched once or the timeout has
  // passed. Returns whether all were fetched.
  bool serve();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace epilogue::trace
