package main

import (
	"strconv"
	"strings"
)

// target is where a converter's result is put: mostly an attribute, often one that is new.
func (w writer) target(converter string) string {
	switch w.Intn(10) {
	case 0, 1:
		switch converter {
		case "Int", "Len", "UnixNano", "math":
			return w.numberPath()
		case "Double":
			return w.doublePath()
		case "Time":
			if len(w.paths.time) > 0 {
				return pick(w.generator, w.paths.time)
			}
		case "map", "ParseJSON":
			return w.someMap()
		}
		return w.textPath()
	case 2:
		return w.attribute(mapKeys) + "[" + w.index() + "]"
	case 3:
		return w.attribute(listKeys) + "[" + strconv.Itoa(w.Intn(3)) + "]"
	case 4:
		return w.attribute(pick(w.generator, allKeys))
	default:
		return w.attributes() + `["r"]`
	}
}

func (w writer) converter(name string, depth int) string {
	d := depth - 1
	switch name {
	case "Concat":
		parts := []string{}
		for range 1 + w.Intn(3) {
			parts = append(parts, w.any(d))
		}
		delimiter := quote(pick(w.generator, []string{"", ":", ", "}))
		return "Concat([" + strings.Join(parts, ", ") + "], " + delimiter + ")"
	case "ConvertCase":
		to := pick(w.generator, []string{"lower", "upper", "snake", "camel"})
		return "ConvertCase(" + w.text(d) + ", " + quote(to) + ")"
	case "Split":
		delimiter := quote(pick(w.generator, []string{",", "/", "", " ", "ß"}))
		split := "Split(" + w.text(d) + ", " + delimiter + ")"
		if w.chance(40) {
			split += "[" + strconv.Itoa(w.Intn(3)) + "]"
		}
		return split
	case "Substring":
		start, length := strconv.Itoa(w.Intn(4)), strconv.Itoa(1+w.Intn(4))
		return "Substring(" + w.text(d) + ", " + start + ", " + length + ")"
	case "Len":
		return "Len(" + pick(w.generator, []func(int) string{w.text, w.mapValue, w.list, w.any})(d) + ")"
	case "ParseJSON":
		parsed := "ParseJSON(" + w.attribute(jsonKeys) + ")"
		if w.chance(40) {
			parsed += pick(w.generator, []string{`["k"]`, `[0]`, `["k"]["x"][1]`, `["missing"]`})
		}
		return parsed
	case "ExtractPatterns":
		return "ExtractPatterns(" + w.text(d) + ", " + quote(pick(w.generator, patterns)) + ")"
	case "ExtractGrokPatterns":
		grok := []string{"%{WORD:first}", "%{GREEDYDATA:all}", "%{NUMBER:n:int} %{WORD}", "%{IP:ip}"}
		return "ExtractGrokPatterns(" + w.text(d) + ", " + quote(pick(w.generator, grok)) + ", true)"
	case "Time":
		return w.time()
	case "UnixNano":
		return "UnixNano(" + w.time() + ")"
	case "IsMatch":
		return "IsMatch(" + w.any(d) + ", " + quote(pick(w.generator, patterns)) + ")"
	case "Int", "Double", "String":
		return name + "(" + w.any(0) + ")"
	case "SHA256", "FNV":
		return name + "(" + w.text(d) + ")"
	case "math":
		return w.math(depth)
	case "list":
		return w.list(d)
	case "map":
		return w.mapValue(d)
	default:
		return w.any(0)
	}
}

func (w writer) time() string {
	if len(w.paths.time) > 0 && w.chance(50) {
		return pick(w.generator, w.paths.time)
	}
	return pick(w.generator, []string{
		`Time("2026-11-29", "%Y-%m-%d")`, `Time("2024-02-29T23:59:58.123Z", "%Y-%m-%dT%H:%M:%S.%LZ")`,
		`Time("29/Nov/2026:10:11:12 +0130", "%d/%b/%Y:%H:%M:%S %z")`,
		`Time("2026-07-01 10:00", "%Y-%m-%d %H:%M", "Europe/Berlin")`, `Time("noon", "%H")`,
		"Time(" + w.attribute(textKeys) + `, "%Y")`,
	})
}
