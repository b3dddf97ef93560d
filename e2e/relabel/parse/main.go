// Parse makes bodies of the text formats, changes them at random, and prints one line for each:
// the format, the body, and what Prometheus' own parsers read in it.
//
//	parse COUNT SEED > bodies.jsonl
//
// A line is an array: `text` or `open`, the body in hexadecimal, and the answer: null where the body is
// refused, otherwise its samples, each with the labels (pairs in the order of their names), the
// value's bits as text, and the time in milliseconds or null.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand"
	"os"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

var textLines = []string{
	"a 1", "a_total 5 1000", "a{b=\"c\"} 2.5", "a{b=\"c\",d=\"e\"} -1", "a{b=\"c\",} +Inf",
	"a { b = \"c\" , d = \"e\" } NaN 12345", "a{b=\"x\\\"y\\\\z\\n\"} 1e-7", "a{} 3", "a{b=\"\"} 4",
	"{\"a.b\",c=\"d\"} 1", "{\"a b\", \"c d\"=\"e\"} 1", "a\t1\t2", "a:b_c1{le=\"+Inf\"} 7",
	"a{größe=\"ß\"} 1", "a{b=\"größe\"} 1", "# HELP a What it is.", "# a comment", "#", "",
	"# TYPE z counter", "# TYPE z_x gauge", "# TYPE \"z.x\" untyped", "# TYPE z histogram",
	"# HELP z \\\\ \\n \"x\"", "  a 1", "a 1 -5", "a 0x1p2", "a 1_000", "a 1e400", "a -Inf", "a inf",
	"a nan", "a .5", "a 5.", "a +1", "a 1e5 99999999999999", "# UNIT z seconds", "# EOF",
}

var openLines = []string{
	"a 1", "a_total 5 1.5", "a{b=\"c\"} 2.5", "a{b=\"c\",d=\"e\"} -1", "a{} +Inf", "a{b=\"\"} 4",
	"a{b=\"x\\\"y\\\\z\\n\"} 1e-7", "{\"a.b\",c=\"d\"} 1", "a_total 1 # {} 1", "a:b_c1{le=\"+Inf\"} 7",
	"a_total{b=\"c\"} 1 # {trace_id=\"x\"} 0.5 1.25", "a_bucket{le=\"1.0\"} 1 # {x=\"y\"} 3",
	"# HELP z What it is.", "# TYPE z counter", "# TYPE z info", "# TYPE z stateset", "# UNIT z_s s",
	"# TYPE z gaugehistogram", "# TYPE z unknown", "# HELP z \\\\ \\n \"x\"", "a 1 1e3", "a 1 -1.5",
	"a NaN", "a 1 1.0001", "a -Inf 0", "a{b=\"größe\"} 1", "# TYPE \"z.x\" gauge", "a 1 1_0",
}

var tokens = []string{
	" ", "  ", "\t", "\n", "{", "}", "\"", "\\", "=", ",", "#", "# ", "a", "1", "-", "+", ".", "e",
	"_", ":", "\x00", "\xff", "ß", "NaN", "\\n", "\\\"", "{}", "\"\"", " 1", "# EOF", "__name__",
	"b=\"c\",", "\r", "TYPE", "HELP", "UNIT", "99999999999999999999", "0x", "1e", "\v", "{,}",
}

func pick(r *rand.Rand, from []string) string { return from[r.Intn(len(from))] }

func body(r *rand.Rand, lines []string, isOpen bool) []byte {
	var out []string
	for n := r.Intn(5); n >= 0; n-- {
		out = append(out, pick(r, lines))
	}
	text := []byte(strings.Join(out, "\n") + "\n")
	if isOpen {
		text = append(text, "# EOF\n"...)
	}
	if r.Intn(12) == 0 {
		text = text[:len(text)-1]
	}
	for n := r.Intn(4); n > 0; n-- {
		at := r.Intn(len(text) + 1)
		end := min(len(text), at+r.Intn(3))
		token := pick(r, tokens)
		switch r.Intn(4) {
		case 0:
			text = append(text[:at:at], text[end:]...)
		case 1:
			text = append(append(text[:at:at], token...), text[end:]...)
		case 2:
			text = append(append(text[:at:at], token...), text[at:]...)
		default:
			// A part again, elsewhere.
			other := r.Intn(len(text) + 1)
			last := min(len(text), other+r.Intn(8))
			part := string(text[other:last])
			text = append(append(text[:at:at], part...), text[at:]...)
		}
		if len(text) == 0 {
			text = []byte("\n")
		}
	}
	return text
}

type sample struct {
	labels [][2]string
	value  string
	time   *int64
}

func (s sample) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{s.labels, s.value, s.time})
}

func read(text []byte, isOpen bool) []sample {
	table := labels.NewSymbolTable()
	var parser textparse.Parser
	if isOpen {
		parser = textparse.NewOpenMetricsParser(text, table)
	} else {
		parser = textparse.NewPromParser(text, table, false)
	}
	found := []sample{}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			return nil
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, time, value := parser.Series()
		var set labels.Labels
		parser.Labels(&set)
		// As a scrape does: a name must be there, and no label twice.
		if _, isTwice := set.HasDuplicateLabelNames(); isTwice || set.Get("__name__") == "" {
			return nil
		}
		pairs := [][2]string{}
		set.Range(func(one labels.Label) {
			if one.Value != "" {
				pairs = append(pairs, [2]string{one.Name, one.Value})
			}
		})
		bits := strconv.FormatUint(math.Float64bits(value), 10)
		if math.IsNaN(value) {
			bits = "NaN"
		}
		if time != nil {
			// The parser's own is overwritten.
			copied := *time
			time = &copied
		}
		found = append(found, sample{pairs, bits, time})
	}
}

func main() {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	seed, err := strconv.ParseInt(os.Args[2], 10, 64)
	if err != nil {
		panic(err)
	}
	r := rand.New(rand.NewSource(seed))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for ; count > 0; count-- {
		format, lines, isOpen := "text", textLines, false
		if r.Intn(2) == 0 {
			format, lines, isOpen = "open", openLines, true
		}
		text := body(r, lines, isOpen)
		packed := hex.EncodeToString(text)
		// The parser appends to what it is given.
		samples := read(append([]byte{}, text...), isOpen)
		if err := encoder.Encode([]any{format, packed, samples}); err != nil {
			panic(err)
		}
	}
}
