// The instruction sets that multiply narrow operands, of which one of each type is chosen at the first call.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu.hpp"
#include "kernels/dot/dot.hpp"

namespace dgo {

class DotSets {
public:
    struct Row {
        const Dot* dot;  // null: not in this build
        const char* isa;
        Needs needs;
    };

    // Rows in the order of preference; those that need test sets are taken by their names only.
    DotSets(const char* kind, const char* variable, std::vector<Row> rows);

    // One that this CPU runs by its name, or the chosen one without; throws where there is none.
    const Dot& of(const std::string& isa) const;
    // The name of the chosen one, or empty, and why it is no better one.
    std::pair<std::string, std::string> isa_and_reason() const {
        return {chosen_ == nullptr ? "" : chosen_->isa, reason_};
    }

private:
    const Dot& named(const std::string& isa) const;

    const char *kind_, *variable_;
    std::vector<Row> rows_;
    const Dot* chosen_ = nullptr;
    std::string reason_;
};

const DotSets& bf16_sets();
const DotSets& int8_sets();

}  // namespace dgo
