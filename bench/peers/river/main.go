// River's side: the same as ../python_program.py, which says what for.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type settings struct {
	MaxWorkers      int `json:"max_workers"`
	FetchCooldownMs int `json:"fetch_cooldown_ms"`
	PollMs          int `json:"poll_ms"`
	Connections     int `json:"connections"`
}

// asked is the argument of the command line, of whichever verb.
type asked struct {
	URL         string   `json:"url"`
	Settings    settings `json:"settings"`
	Records     string   `json:"records"`
	First       int64    `json:"first"`
	Connections int      `json:"connections"`
	Tasks       int64    `json:"tasks"`
	Requests    *int64   `json:"requests"`
	Seconds     *float64 `json:"seconds"`
	Pause       float64  `json:"pause"`
	DueIn       *float64 `json:"due_in"`
}

type loaded struct {
	Accepted int64        `json:"accepted"`
	Began    float64      `json:"began"`
	Ended    float64      `json:"ended"`
	DueAt    *float64     `json:"due_at"`
	Moments  [][2]float64 `json:"moments"`
}

type noopArgs struct {
	N int64 `json:"n"`
}

func (noopArgs) Kind() string { return "noop" }

type noopWorker struct {
	river.WorkerDefaults[noopArgs]
	recorder *recorder
}

func (w *noopWorker) Work(_ context.Context, job *river.Job[noopArgs]) error {
	w.recorder.note(job.Args.N)
	return nil
}

func now() float64 { return float64(time.Now().UnixNano()) / 1e9 }

// recorder keeps 16 bytes a call: ../../recorder.py reads them.
type recorder struct {
	file  string
	mutex sync.Mutex
	calls []byte
}

func (r *recorder) note(number int64) {
	moment := now()
	r.mutex.Lock()
	if len(r.calls) == 0 {
		time.AfterFunc(250*time.Millisecond, r.flush)
	}
	r.calls = binary.LittleEndian.AppendUint64(r.calls, math.Float64bits(float64(number)))
	r.calls = binary.LittleEndian.AppendUint64(r.calls, math.Float64bits(moment))
	r.mutex.Unlock()
}

func (r *recorder) flush() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	file, err := os.OpenFile(r.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	check(err)
	_, err = file.Write(r.calls)
	check(err)
	check(file.Close())
	r.calls = r.calls[:0]
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func pool(ctx context.Context, url string, connections int) *pgxpool.Pool {
	config, err := pgxpool.ParseConfig(url)
	check(err)
	config.MaxConns = int32(max(connections, 2))
	opened, err := pgxpool.NewWithConfig(ctx, config)
	check(err)
	check(opened.Ping(ctx))
	return opened
}

func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

func install(ctx context.Context, asked asked) {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool(ctx, asked.URL, 2)), &rivermigrate.Config{Logger: logger()})
	check(err)
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	check(err)
}

func work(ctx context.Context, asked asked) {
	recorder := &recorder{file: asked.Records}
	workers := river.NewWorkers()
	river.AddWorker(workers, &noopWorker{recorder: recorder})
	client, err := river.NewClient(riverpgxv5.New(pool(ctx, asked.URL, asked.Settings.Connections)), &river.Config{
		FetchCooldown:     time.Duration(asked.Settings.FetchCooldownMs) * time.Millisecond,
		FetchPollInterval: time.Duration(asked.Settings.PollMs) * time.Millisecond,
		JobTimeout:        -1,
		Logger:            logger(),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: asked.Settings.MaxWorkers}},
		Workers:           workers,
	})
	check(err)
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	fmt.Printf("{\"ready_at\": %.6f}\n", now())
	check(client.Start(ctx))
	<-told
	recorder.flush()
}

// offering hands out the numbers, and keeps the moments.
type offering struct {
	mutex   sync.Mutex
	left    int64
	number  int64
	moments [][2]float64
}

func (o *offering) take(tasks int64) (int64, bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.left <= 0 {
		return 0, false
	}
	first := o.number
	o.left--
	o.number += tasks
	return first, true
}

func (o *offering) done(sent float64) {
	answered := now()
	o.mutex.Lock()
	o.moments = append(o.moments, [2]float64{sent, answered})
	o.mutex.Unlock()
}

func load(ctx context.Context, asked asked) {
	client, err := river.NewClient(riverpgxv5.New(pool(ctx, asked.URL, asked.Connections)), &river.Config{
		// An insert notifies workers no more often than that, too.
		FetchCooldown: time.Duration(asked.Settings.FetchCooldownMs) * time.Millisecond,
		Logger:        logger(),
	})
	check(err)
	offering := &offering{left: math.MaxInt64, number: asked.First}
	if asked.Requests != nil {
		offering.left = *asked.Requests
	}
	var opts *river.InsertOpts
	var dueAt *float64
	if asked.DueIn != nil {
		moment := math.Floor(now()+*asked.DueIn) + 0.125
		dueAt = &moment
		opts = &river.InsertOpts{ScheduledAt: time.UnixMicro(int64(math.Round(moment * 1e6)))}
	}
	began, endsAt := now(), math.Inf(1)
	if asked.Seconds != nil {
		endsAt = began + *asked.Seconds
	}
	var group sync.WaitGroup
	for range asked.Connections {
		group.Go(func() { keepBusy(ctx, client, offering, asked, opts, endsAt) })
	}
	group.Wait()
	found := loaded{Accepted: int64(len(offering.moments)) * asked.Tasks, Began: began, DueAt: dueAt, Moments: [][2]float64{}}
	for _, moment := range offering.moments {
		found.Ended = max(found.Ended, moment[1])
	}
	if asked.Pause > 0 {
		found.Moments = offering.moments
	}
	check(json.NewEncoder(os.Stdout).Encode(found))
}

func keepBusy(ctx context.Context, client *river.Client[pgx.Tx], offering *offering, asked asked, opts *river.InsertOpts, endsAt float64) {
	for now() < endsAt {
		first, more := offering.take(asked.Tasks)
		if !more {
			return
		}
		sent := now()
		enqueue(ctx, client, first, asked.Tasks, opts)
		offering.done(sent)
		if asked.Pause > 0 {
			time.Sleep(time.Duration(asked.Pause * (0.5 + rand.Float64()) * 1e9))
		}
	}
}

func enqueue(ctx context.Context, client *river.Client[pgx.Tx], first int64, tasks int64, opts *river.InsertOpts) {
	if tasks == 1 {
		_, err := client.Insert(ctx, noopArgs{N: first}, opts)
		check(err)
		return
	}
	params := make([]river.InsertManyParams, tasks)
	for place := range params {
		params[place] = river.InsertManyParams{Args: noopArgs{N: first + int64(place)}, InsertOpts: opts}
	}
	_, err := client.InsertManyFast(ctx, params)
	check(err)
}

func main() {
	var given asked
	given.Connections, given.Tasks = 1, 1
	check(json.Unmarshal([]byte(os.Args[2]), &given))
	ctx := context.Background()
	switch os.Args[1] {
	case "install":
		install(ctx, given)
	case "work":
		work(ctx, given)
	default:
		load(ctx, given)
	}
}
