// Preloaded into the program, its first pass fails, as no pass does on a CPU: how a build that failed is
// told.
#include "base/check.h"
#include "compile/pass.h"

void epilogue::compiler::dead_code(graph::Graph&, PassContext&) { fail("this pass always fails"); }
