// Whether a measurement had the cores it counted on; what was amiss is a line on stderr.
#pragma once

namespace epilogue::cli {

// Says so where more threads are to run than there are cores.
void warn_of_too_many_threads();

// How long this process's threads waited for a core, runnable but not running, between begin() and end(),
// which may be called again and again. A calm machine lets them wait for next to nothing, however short or
// uneven the calls are. 0 where the system does not tell.
class CoreWait {
 public:
  void begin();
  void end();
  // Says so where others took so much that the times are not the layer's own.
  void warn_if_disturbed() const;

 private:
  double begun_s_ = 0, waited_before_s_ = 0;
  double seconds_ = 0, waited_s_ = 0;
};

}  // namespace epilogue::cli
