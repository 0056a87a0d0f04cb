// Messages of protobuf as named tuples of the fields that a reader asks for.
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "common/gil.hpp"
#include "common/protobuf.hpp"
#include "common/protobuf_file.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

using protobuf::Head;
using protobuf::Kind;
using protobuf::Malformed;

// How a field becomes an item of the tuple.
enum class Form { text, bytes, integer, real, texts, blobs, integers, reals, message, messages, made, whole };
constexpr std::pair<const char*, Form> kForms[] = {
    {"text", Form::text},       {"bytes", Form::bytes},       {"int", Form::integer},   {"float", Form::real},
    {"texts", Form::texts},     {"blobs", Form::blobs},       {"ints", Form::integers}, {"floats", Form::reals},
    {"message", Form::message}, {"messages", Form::messages}, {"made", Form::made},     {"whole", Form::whole},
};
constexpr int kMostDepth = 130;  // of messages in messages
constexpr unsigned kMostNumber = 255;  // of a field

py::object owned(PyObject* object) {
    if (!object) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(object);
}

py::object text_of(std::string_view data) {
    return owned(PyUnicode_DecodeUTF8(data.data(), static_cast<Py_ssize_t>(data.size()), "replace"));
}

py::object bytes_of(std::string_view data) {
    return owned(PyBytes_FromStringAndSize(data.data(), static_cast<Py_ssize_t>(data.size())));
}

py::object integer_of(uint64_t value) { return owned(PyLong_FromLongLong(static_cast<int64_t>(value))); }

py::object real_of(std::string_view data) {
    float value;
    std::memcpy(&value, data.data(), sizeof value);
    return owned(PyFloat_FromDouble(double{value}));
}

class Message {
public:
    using Spec = std::tuple<unsigned, std::string, py::object>;

    explicit Message(py::type made) : made_(std::move(made)) {}

    void take(const std::vector<Spec>& specs) {
        if (!PyType_IsSubtype(type(), &PyTuple_Type) || py::len(made_.attr("_fields")) != specs.size()) {
            throw py::value_error("needs a class of named tuples with " + std::to_string(specs.size()) + " items");
        }
        std::vector<Field> fields;
        std::vector<int> places(kMostNumber + 1, -1);
        for (const auto& [number, name, of] : specs) {
            const auto* form = std::begin(kForms);
            while (form != std::end(kForms) && form->first != name) ++form;
            if (form == std::end(kForms)) throw py::value_error("there is no form " + name);
            if (number > kMostNumber) throw py::value_error("takes no field of number " + std::to_string(number));
            Field field{form->second, nullptr, of};
            if (field.form == Form::message || field.form == Form::messages) field.inner = &of.cast<const Message&>();
            if (field.form != Form::whole) places[number] = static_cast<int>(fields.size());
            fields.push_back(field);
        }
        for (Field& field : fields) {
            if (field.form != Form::whole) continue;
            field.instead = places.at(field.of.cast<unsigned>());
            if (field.instead < 0) throw py::value_error("takes no field instead of the whole");
        }
        fields_ = std::move(fields);
        places_ = std::move(places);
    }

    py::object read(std::string_view message, int depth) const {
        if (depth > kMostDepth)
            throw Malformed("messages in messages, more than " + std::to_string(kMostDepth) + " deep");
        if (fields_.empty()) throw Malformed("a message of which no fields are taken");
        std::vector<py::object> items(fields_.size());
        std::vector<std::pair<int, std::string_view>> parts;  // of messages
        for (std::string_view rest = message; !rest.empty();) {
            const Head head = protobuf::take_head(rest);
            const std::string_view data = protobuf::take_data(rest, head);
            const int place = head.number < places_.size() ? places_[head.number] : -1;
            if (place < 0) continue;
            const Field& field = fields_[place];
            if (field.form != Form::message && field.form != Form::made) {
                put(items[place], field, head, data, depth);
            } else if (head.kind == Kind::bytes) {
                parts.emplace_back(place, data);
            }
        }
        for (const auto& [place, part] : parts) {
            if (items[place]) continue;
            // the parts of a message one after another are the message
            std::string joined;
            for (const auto& [other, data] : parts)
                if (other == place && data.data() != part.data()) joined += data;
            if (!joined.empty()) joined.insert(0, part);
            const std::string_view inner = joined.empty() ? part : std::string_view(joined);
            const Field& field = fields_[place];
            items[place] = field.inner ? field.inner->read(inner, depth + 1) : field.of(bytes_of(inner));
        }
        return made_of(items, message);
    }

    // What stands for a message that another one lacks.
    const py::object& absent() const {
        if (!absent_) absent_ = read(std::string_view(), 0);
        return absent_;
    }

private:
    struct Field {
        Form form;
        const Message* inner;
        py::object of;  // Message: keeps it alive; made: the function; whole: the number of the field instead of it
        int instead = -1;  // its place
    };

    // Enters a field; one of another kind than the form's is none of the message's, as protobuf has it.
    static void put(py::object& item, const Field& field, const Head& head, std::string_view data, int depth) {
        const bool bytes = head.kind == Kind::bytes;
        switch (field.form) {
            case Form::text:
                if (bytes) item = text_of(data);
                return;
            case Form::bytes:
                if (bytes) item = bytes_of(data);
                return;
            case Form::integer:
                if (head.kind == Kind::varint) item = integer_of(head.value);
                return;
            case Form::real:
                if (head.kind == Kind::fixed32) item = real_of(data);
                return;
            case Form::texts:
                if (bytes) append(item, text_of(data));
                return;
            case Form::blobs:
                if (bytes) append(item, bytes_of(data));
                return;
            case Form::integers:
                if (head.kind == Kind::varint) append(item, integer_of(head.value));
                while (bytes && !data.empty()) append(item, integer_of(protobuf::take_varint(data)));
                return;
            case Form::reals:
                if (!bytes && head.kind != Kind::fixed32) return;
                if (data.size() % sizeof(float)) throw Malformed("floats of other sizes");
                for (; !data.empty(); data.remove_prefix(sizeof(float))) append(item, real_of(data));
                return;
            case Form::messages:
                if (bytes) append(item, field.inner->read(data, depth + 1));
                return;
            case Form::message:
            case Form::made:
            case Form::whole: return;
        }
    }

    static void append(py::object& items, const py::object& item) {
        if (!items) items = py::list();
        if (PyList_Append(items.ptr(), item.ptr())) throw py::error_already_set();
    }

    py::object made_of(std::vector<py::object>& items, std::string_view message) const {
        std::vector<bool> replaced(items.size());
        for (size_t i = 0; i < items.size(); ++i)
            if (fields_[i].form == Form::whole) replaced[i] = bool(items[fields_[i].instead]);
        const py::object made = owned(type()->tp_alloc(type(), static_cast<Py_ssize_t>(items.size())));
        for (size_t i = 0; i < items.size(); ++i) {
            const Field& field = fields_[i];
            py::object& item = items[i];
            if (field.form == Form::whole) {
                item = bytes_of(replaced[i] ? std::string_view() : message);
            } else if (!item) {
                item = default_of(field);
            } else if (field.form == Form::texts) {
                item = owned(PyList_AsTuple(item.ptr()));
            }
            PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), py::object(item).release().ptr());
        }
        return made;
    }

    static py::object default_of(const Field& field) {
        switch (field.form) {
            case Form::text: return py::str();
            case Form::bytes: return py::bytes();
            case Form::integer: return py::int_(0);
            case Form::real: return py::float_(0.0);
            case Form::message: return field.inner->absent();
            case Form::made: return field.of(py::bytes());
            default: return py::tuple();
        }
    }

    PyTypeObject* type() const { return reinterpret_cast<PyTypeObject*>(made_.ptr()); }

    py::type made_;
    std::vector<Field> fields_;
    std::vector<int> places_;  // of fields, by their numbers; -1: not asked for
    mutable py::object absent_;
};

template <typename F>
auto raising(F&& read) {
    try {
        return read();
    } catch (const Malformed& error) {
        throw py::value_error(error.what());
    } catch (const std::system_error& error) {
        errno = error.code().value();
        PyErr_SetFromErrno(PyExc_OSError);
        throw py::error_already_set();
    }
}

py::tuple without_large(int descriptor, uint64_t size, uint64_t whole, const std::vector<uint64_t>& route,
                        uint64_t large) {
    if (route.size() < 2) throw py::value_error("needs a route of two fields or more");
    const protobuf::Thinned file = raising([&] {
        const ReleaseGil release;
        return protobuf::thinned(descriptor, size, whole, route, large);
    });
    return py::make_tuple(bytes_of(file.copy), file.ranges);
}

}  // namespace

void bind_protobuf(py::module_& m) {
    py::class_<Message>(m, "Message", "A kind of protobuf's messages, read as named tuples of the fields asked for.")
        .def(py::init<py::type>(), py::arg("made"), "made: a class of named tuples with an item for each field.")
        .def("take", &Message::take, py::arg("fields"),
             "Takes fields as (number, form, of): text, bytes, int, float; texts, blobs, ints, floats; message and "
             "messages of a Message; made by a function of bytes; whole: the message's bytes, b\"\" where it has the "
             "field `of`.")
        .def_property_readonly(
            "absent", [](const Message& self) { return self.absent(); },
            "Returns what stands for a message that another one lacks.")
        .def(
            "read",
            [](const Message& self, const py::bytes& data) {
                return raising([&] { return self.read(std::string_view(data), 0); });
            },
            py::arg("data"), "Returns the named tuple of a message. ValueError: these are no such bytes.");
    m.def("thinned", without_large, py::arg("descriptor"), py::arg("size"), py::arg("whole"), py::arg("route"),
          py::arg("large"),
          "Returns the bytes of a file of one message without large tensors, and for each of these the number of the "
          "item that has it, offset and bytes.\n\nroute: numbers of fields that lead to the data of an item. large: "
          "bytes from which data is left out. A file of fewer than `whole` bytes is read as a whole. ValueError: no "
          "message, or an item with its data more than once.");
}

}  // namespace dgo
