// Package gocommon has what the Go adapters share: options, settings, schedule and output lines.
// docs/clients.md specifies the options and the lines.
package gocommon

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Options are the command line, and the properties of the --command-config file.
type Options struct {
	Role             string
	BootstrapServers []string
	Topic            string
	MaxMessages      int     // negative: no limit
	Throughput       float64 // records per second; 0 or less: as fast as possible
	ValuePrefix      string
	RepeatingKeys    int // 0: no keys
	GroupID          string
	EnableAutocommit bool
	Properties       map[string]string
}

// ReadOptions returns the options of the command line. It blocks until the configuration file,
// which may be a FIFO and is opened once, is complete.
func ReadOptions() Options {
	var options Options
	if len(os.Args) < 2 || !slices.Contains([]string{"producer", "consumer"}, os.Args[1]) {
		FailSetting(fmt.Errorf("the first argument is not producer or consumer"))
	}
	options.Role = os.Args[1]
	flags := flag.NewFlagSet(options.Role, flag.ExitOnError)
	servers := flags.String("bootstrap-server", "", "HOST:PORT,...")
	config := flags.String("command-config", "", "file with Kafka's properties")
	flags.StringVar(&options.Topic, "topic", "", "")
	flags.IntVar(&options.MaxMessages, "max-messages", -1, "")
	flags.Float64Var(&options.Throughput, "throughput", -1, "")
	flags.StringVar(&options.ValuePrefix, "value-prefix", "", "")
	flags.IntVar(&options.RepeatingKeys, "repeating-keys", 0, "")
	flags.StringVar(&options.GroupID, "group-id", "", "")
	flags.BoolVar(&options.EnableAutocommit, "enable-autocommit", false, "")
	flags.Bool("verbose", true, "record_data is always written")
	_ = flags.Parse(os.Args[2:]) // Exits on errors.
	if *servers == "" || options.Topic == "" {
		FailSetting(fmt.Errorf("--bootstrap-server and --topic are required"))
	}
	if options.Role == "consumer" && options.GroupID == "" {
		FailSetting(fmt.Errorf("--group-id is required"))
	}
	options.BootstrapServers = strings.Split(*servers, ",")
	options.Properties = map[string]string{}
	if *config != "" {
		text, err := os.ReadFile(*config)
		if err != nil {
			FailSetting(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "#") {
				name, value, _ := strings.Cut(line, "=")
				options.Properties[strings.TrimSpace(name)] = strings.TrimSpace(value)
			}
		}
	}
	return options
}

// Key returns the key of a record, nil if it has none.
func (options Options) Key(number int) *string {
	if options.RepeatingKeys <= 0 {
		return nil
	}
	key := strconv.Itoa(number % options.RepeatingKeys)
	return &key
}

// Value returns the value of a record.
func (options Options) Value(number int) string {
	if options.ValuePrefix == "" {
		return strconv.Itoa(number)
	}
	return options.ValuePrefix + "." + strconv.Itoa(number)
}

// Autocommit tells whether the library commits by itself.
func (options Options) Autocommit() bool {
	if value, given := options.Properties["enable.auto.commit"]; given {
		return value == "true"
	}
	return options.EnableAutocommit
}

// Apply calls the setter of each property, and exits with code 2 if there is none or it fails.
func Apply(properties map[string]string, setters map[string]func(string) error) {
	for name, value := range properties {
		set, known := setters[name]
		if !known {
			FailSetting(fmt.Errorf("unknown property %s=%s", name, value))
		}
		if err := set(value); err != nil {
			FailSetting(fmt.Errorf("invalid property %s=%s: %w", name, value, err))
		}
	}
}

// FailSetting exits with code 2: the library cannot do what was asked for.
func FailSetting(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}

// Fail exits with code 1.
func Fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Int returns a setter for a number.
func Int(set func(int)) func(string) error {
	return func(value string) error {
		number, err := strconv.Atoi(value)
		if err == nil {
			set(number)
		}
		return err
	}
}

// Millis returns a setter for a duration in milliseconds.
func Millis(set func(time.Duration)) func(string) error {
	return Int(func(number int) { set(time.Duration(number) * time.Millisecond) })
}

// Text returns a setter for a text.
func Text(set func(string)) func(string) error {
	return func(value string) error {
		set(value)
		return nil
	}
}

// Bool returns a setter for "true" or "false".
func Bool(set func(bool)) func(string) error {
	return OneOf(set, map[string]bool{"true": true, "false": false})
}

// OneOf returns a setter that takes a value by its name.
func OneOf[T any](set func(T), values map[string]T) func(string) error {
	return func(name string) error {
		value, known := values[name]
		if !known {
			allowed := make([]string, 0, len(values))
			for name := range values {
				allowed = append(allowed, name)
			}
			slices.Sort(allowed)
			return fmt.Errorf("not one of %s", strings.Join(allowed, ", "))
		}
		set(value)
		return nil
	}
}

// Assignors returns a setter for a list of assignors, by Java's class names or as "range".
func Assignors[T any](set func([]T), values map[string]T) func(string) error {
	classes := map[string]string{
		"RangeAssignor":             "range",
		"RoundRobinAssignor":        "roundrobin",
		"StickyAssignor":            "sticky",
		"CooperativeStickyAssignor": "cooperative-sticky",
	}
	return func(list string) error {
		var chosen []T
		add := OneOf(func(value T) { chosen = append(chosen, value) }, values)
		for _, name := range strings.Split(list, ",") {
			name = strings.TrimSpace(name)
			name = name[strings.LastIndex(name, ".")+1:]
			if short, known := classes[name]; known {
				name = short
			}
			if err := add(name); err != nil {
				return err
			}
		}
		set(chosen)
		return nil
	}
}

// StopContext returns a context that ends with SIGTERM or SIGINT. Call it after ReadOptions: until
// then a signal ends the program.
func StopContext() context.Context {
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	return ctx
}

// DueRecords yields each record's number when it is due, at start + number / throughput.
func DueRecords(ctx context.Context, options Options) iter.Seq[int] {
	return func(yield func(int) bool) {
		start := time.Now()
		for number := 0; number != options.MaxMessages; number++ {
			if options.Throughput > 0 {
				after := float64(number) / options.Throughput * float64(time.Second)
				select {
				case <-time.After(time.Until(start.Add(time.Duration(after)))):
				case <-ctx.Done():
				}
			}
			if ctx.Err() != nil || !yield(number) {
				return
			}
		}
	}
}

// EmitStartup writes startup_complete with the settings in effect, as far as they are known:
// adapter.json has the defaults of one release of the library; another may have others.
func EmitStartup(options Options, adapter []byte, module string, forced map[string]string) {
	var manifest struct {
		Library, Version   string
		Producer, Consumer map[string]string
	}
	if err := json.Unmarshal(adapter, &manifest); err != nil {
		Fail(err)
	}
	version := moduleVersion(module)
	settings := map[string]string{}
	if version == manifest.Version {
		defaults := manifest.Producer
		if options.Role == "consumer" {
			defaults = manifest.Consumer
		}
		for name, value := range defaults {
			if value != "" {
				settings[name] = value
			}
		}
	}
	for _, given := range []map[string]string{forced, options.Properties} {
		for name, value := range given {
			settings[name] = value
		}
	}
	Emit(NewLine("startup_complete", Line{
		"client": manifest.Library, "version": version, "settings": settings,
	}))
}

func moduleVersion(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return strings.TrimPrefix(dependency.Version, "v")
		}
	}
	log.Fatalf("the program was built without %s", module)
	return ""
}
