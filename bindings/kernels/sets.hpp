// One kind of products in the code of several instruction sets, of which one is chosen at the first call.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"
#include "kernels/cpu.hpp"

namespace dgo {

template <class Code>
class Sets {
public:
    struct Row {
        const char* name;
        const Code* code;
        Needs needs;
    };

    // Rows in the order of preference; those that need test sets are taken by their names only.
    Sets(const char* kind, const char* variable_name, std::vector<Row> rows)
        : kind_(kind), variable_(variable_name), rows_(std::move(rows)) {
        const std::string name = variable(variable_name);
        if (name == "none") {
            reason = std::string(variable_name) + " is none";
            return;
        }
        if (!name.empty()) {
            code = &named(name);
            return;
        }
        for (const Row& row : rows_) {
            if (row.needs == Needs::test_sets) break;
            std::string lacking = limit(row.needs);
            if (lacking.empty()) lacking = refusal(row.needs);
            if (lacking.empty()) {
                code = row.code;
                return;
            }
            reason = lacking;
        }
    }

    // One that this CPU runs by its name, or the chosen one without; throws where there is none.
    const Code& of(const std::string& name) const {
        if (!name.empty()) return named(name);
        if (code == nullptr) {
            fail(ErrorKind::runtime_unavailable, std::string("there are no ") + kind_ + " products here: " + reason);
        }
        return *code;
    }

    const Code* code = nullptr;  // null: none
    std::string reason;  // why it is no better one

private:
    const Code& named(const std::string& name) const {
        std::string all;
        for (const Row& row : rows_) {
            all += std::string(row.name) + ", ";
            if (name != row.name) continue;
            const std::string why = refusal(row.needs);
            if (why.empty()) return *row.code;
            fail(ErrorKind::runtime_unavailable, std::string(kind_) + " products by '" + name +
                                                     "' do not run here: " + why + "; set " + variable_ +
                                                     " to another set or none, or leave it out");
        }
        fail(ErrorKind::invalid_argument, std::string(variable_) + " is '" + name +
                                              "', which is no instruction set of " + kind_ + " products; set it to " +
                                              all + "or none, or leave it out");
    }

    const char *kind_, *variable_;
    std::vector<Row> rows_;
};

}  // namespace dgo
