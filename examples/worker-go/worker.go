// A remote worker for Gnomon: the standard library alone. The protocol is in
// docs/reference/worker-protocol.md.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Handler runs the tasks of one type. Its value is the task's result. The context ends when the task
// is cancelled or its time is up, and with the session.
type Handler func(ctx context.Context, task *Task) (any, error)

// TaskError fails a task with more than an error: never again, or again after a while.
type TaskError struct {
	Message string
	Never   bool
	After   time.Duration
}

func (e *TaskError) Error() string { return e.Message }

// Options of a worker.
type Options struct {
	URL, Key, Name string
	Slots          int
	Drain          time.Duration
	Handlers       map[string]Handler
}

type fence struct {
	TaskID string `json:"task_id"`
	Fence  int64  `json:"fence"`
}

// Task is a delivery, and what the worker knows of its execution.
type Task struct {
	fence
	TaskType       string          `json:"task_type"`
	Attempt        int             `json:"attempt"`
	RetriesLeft    int             `json:"retries_left"`
	Payload        json.RawMessage `json:"payload"`
	TimeoutSeconds float64         `json:"timeout_seconds"`
	StartWithin    float64         `json:"start_within_seconds"`
	Asks           bool            `json:"asks"`
	IdempotencyKey *string         `json:"idempotency_key"`

	session *session
	stop    context.CancelCauseFunc
	asking  bool
	granted chan bool
	report  *report
	note    *progress
}

type report struct {
	fence
	Outcome    string   `json:"outcome"`
	StartedAt  string   `json:"started_at,omitempty"`
	FinishedAt string   `json:"finished_at,omitempty"`
	Result     any      `json:"result,omitempty"`
	Error      string   `json:"error,omitempty"`
	Traceback  string   `json:"traceback,omitempty"`
	Retryable  *bool    `json:"retryable,omitempty"`
	RetryAfter *float64 `json:"retry_after_seconds,omitempty"`
}

type progress struct {
	fence
	Fraction float64 `json:"fraction"`
	Message  string  `json:"message,omitempty"`
}

type opened struct {
	SessionID    string  `json:"session_id"`
	Secret       string  `json:"secret"`
	Epoch        string  `json:"epoch"`
	LeaseSeconds float64 `json:"lease_seconds"`
	PollSeconds  float64 `json:"poll_seconds"`
}

type answer struct {
	Epoch        string  `json:"epoch"`
	Deliveries   []*Task `json:"deliveries"`
	Acknowledged []fence `json:"acknowledged"`
	Begun        []struct {
		fence
		Granted bool `json:"granted"`
	} `json:"begun"`
	Cancel []struct {
		fence
		Reason string `json:"reason"`
	} `json:"cancel"`
	Command string `json:"command"`
}

// refused is an answer that is a problem document.
type refused struct {
	status int
	detail string
}

func (e *refused) Error() string { return fmt.Sprintf("%d: %s", e.status, e.detail) }

func isGone(err error) bool {
	var no *refused
	return errors.As(err, &no) && (no.status == 404 || no.status == 410)
}

const (
	most          = 1000     // reports, questions and notes of progress in a poll
	largestAnswer = 32 << 20 // bytes
)

var (
	errLost = errors.New("the session has ended")
	errLate = errors.New("did not end in time")
)

type session struct {
	opened
	o       Options
	url     string
	mu      sync.Mutex
	held    map[fence]*Task
	seq     int64
	trusted time.Time
	drains  time.Time // zero: it does not drain
	news    chan struct{}
	end     context.Context
	lose    context.CancelCauseFunc
}

// Run serves until ctx ends; then it ends what runs, reports it, and leaves.
func Run(ctx context.Context, o Options) error {
	o.URL = strings.TrimRight(o.URL, "/")
	for first, failures := true, 0; ctx.Err() == nil; {
		s, err := open(ctx, o)
		var no *refused
		if errors.As(err, &no) && first && no.status < 500 && no.status != 429 && no.status != 409 {
			return err // the key or the options are wrong
		} else if err != nil {
			log.Printf("no session: %v", err)
			sleep(ctx, pause(failures))
			failures++
			continue
		}
		log.Printf("worker started at %s as %s", o.URL, o.Name)
		first, failures = false, 0
		if err := s.serve(ctx); err == nil {
			return nil
		} else {
			log.Printf("opening a new session: %v", err)
		}
	}
	return nil
}

func open(ctx context.Context, o Options) (*session, error) {
	names := make([]string, 0, len(o.Handlers))
	for name := range o.Handlers {
		names = append(names, name)
	}
	body := map[string]any{"name": o.Name, "handlers": names, "slots": o.Slots, "client": "gnomon-example-go/1"}
	s := &session{o: o, held: map[fence]*Task{}, news: make(chan struct{}, 1)}
	asked := time.Now()
	if err := s.call(ctx, "POST", o.URL+"/api/v1/worker-sessions", body, &s.opened, 10*time.Second); err != nil {
		return nil, err
	}
	s.url = o.URL + "/api/v1/worker-sessions/" + s.SessionID
	s.renewed(asked)
	s.end, s.lose = context.WithCancelCause(context.Background())
	return s, nil
}

func (s *session) renewed(asked time.Time) { // a fifth less than the gateway gives
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trusted = asked.Add(seconds(s.LeaseSeconds * 0.8))
}

// serve polls until the session is lost, or has drained.
func (s *session) serve(ctx context.Context) error {
	defer s.lose(errLost)
	go s.beat()
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		s.drains = time.Now().Add(s.o.Drain)
		s.mu.Unlock()
		s.say()
	})
	for failures := 0; s.end.Err() == nil && !s.hasDrained(); {
		select { // what is said by the next poll
		case <-s.news:
		default:
		}
		seq, body, urgent := s.poll()
		done := make(chan time.Duration, 1)
		go func() {
			var said answer
			asked := time.Now()
			err := s.call(s.end, "POST", s.url+"/poll", body, &said, seconds(s.PollSeconds+10))
			done <- s.take(seq, &said, err, asked, &failures)
		}()
		var wait time.Duration
		select {
		case wait = <-done:
		case <-s.end.Done():
		case <-s.when(!urgent): // one that only waits is followed by the next, which voids it
		}
		sleep(s.end, wait)
	}
	if s.end.Err() != nil {
		return context.Cause(s.end)
	}
	return s.call(context.Background(), "DELETE", s.url, nil, nil, 10*time.Second)
}

func (s *session) when(waits bool) <-chan struct{} {
	if waits {
		return s.news
	}
	return nil
}

func (s *session) hasDrained() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.drains.IsZero() && (len(s.held) == 0 || time.Now().After(s.drains))
}

func (s *session) say() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *session) poll() (int64, map[string]any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	held, begin := []fence{}, []fence{}
	reports, notes := []*report{}, []*progress{}
	for f, task := range s.held {
		held = append(held, f)
		if task.report != nil && len(reports) < most {
			reports = append(reports, task.report)
		}
		if task.asking && len(begin) < most {
			begin = append(begin, f)
		}
		if task.note != nil && len(notes) < most {
			notes = append(notes, task.note)
			task.note = nil
		}
	}
	slots := 0
	if s.drains.IsZero() && time.Now().Before(s.trusted) && len(held) < s.o.Slots {
		slots = s.o.Slots - len(held)
	}
	return s.seq, map[string]any{
		"sequence": s.seq, "epoch": s.Epoch, "slots": slots, "wait_seconds": s.PollSeconds,
		"held": held, "reports": reports, "begin": begin, "progress": notes,
	}, len(reports)+len(begin) > 0
}

// take does what the answer to a poll says, unless a newer poll was sent; it gives how long to wait
// before the next.
func (s *session) take(seq int64, said *answer, err error, asked time.Time, failures *int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq != s.seq || s.end.Err() != nil {
		return 0
	}
	if isGone(err) {
		s.lose(err)
		return 0
	} else if err != nil {
		if *failures%20 == 0 {
			log.Printf("the gateway cannot be polled: %v", err)
		}
		*failures++
		return pause(*failures)
	}
	*failures = 0
	news := len(said.Acknowledged)+len(said.Begun)+len(said.Deliveries) > 0 || said.Epoch != s.Epoch
	s.Epoch = said.Epoch
	for _, each := range said.Acknowledged {
		delete(s.held, each)
	}
	for _, each := range said.Begun {
		if task := s.held[each.fence]; task != nil && task.asking {
			task.asking = false
			task.granted <- each.Granted
		}
	}
	for _, each := range said.Cancel {
		if task := s.held[each.fence]; task != nil {
			task.stop(errors.New(each.Reason))
		}
	}
	for _, task := range said.Deliveries {
		if s.held[task.fence] == nil {
			task.session, task.granted = s, make(chan bool, 1)
			ctx, stop := context.WithCancelCause(s.end)
			task.stop = stop
			s.held[task.fence] = task
			go task.execute(ctx)
		}
	}
	if said.Command == "drain" {
		s.drains = time.Now().Add(s.o.Drain)
	} else if said.Command == "reopen" {
		s.lose(errors.New("the gateway asks for a new session"))
	}
	if !news && time.Since(asked) < 50*time.Millisecond {
		return 100 * time.Millisecond // it did not wait
	}
	return 0
}

func (t *Task) execute(ctx context.Context) {
	defer t.stop(nil)
	s := t.session
	late := time.Now().Add(seconds(t.StartWithin))
	if t.Asks && !s.consents(ctx, t, late) || !s.mayStart(late) || ctx.Err() != nil {
		s.report(t, &report{Outcome: "released"})
		return
	}
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, seconds(t.TimeoutSeconds), errLate)
	defer cancel()
	ended := make(chan *report, 1)
	go func() { ended <- s.handle(ctx, t) }()
	var became *report
	select {
	case became = <-ended:
	case <-ctx.Done(): // a handler that goes on is left alone
		became = cutShort(context.Cause(ctx))
	}
	became.StartedAt, became.FinishedAt = stamp(started), stamp(time.Now())
	s.report(t, became)
}

// handle calls the handler of a task.
func (s *session) handle(ctx context.Context, t *Task) (became *report) {
	defer func() {
		if broken := recover(); broken != nil {
			trace := string(debug.Stack())
			became = &report{Outcome: "failed", Error: fmt.Sprint("panic: ", broken), Traceback: trace}
		}
	}()
	result, err := s.o.Handlers[t.TaskType](ctx, t)
	if err == nil {
		return &report{Outcome: "succeeded", Result: result}
	} else if ctx.Err() != nil {
		return cutShort(context.Cause(ctx))
	}
	failed := &report{Outcome: "failed", Error: err.Error()}
	var how *TaskError
	if errors.As(err, &how) {
		again, after := !how.Never, how.After.Seconds()
		failed.Retryable = &again
		if after > 0 {
			failed.RetryAfter = &after
		}
	}
	return failed
}

func cutShort(why error) *report {
	if errors.Is(why, errLate) {
		return &report{Outcome: "timed_out", Error: why.Error()}
	}
	return &report{Outcome: "cancelled", Error: why.Error()}
}

// Progress says how far the work has come, from 0 to 1.
func (t *Task) Progress(fraction float64, message string) {
	t.session.mu.Lock()
	t.note = &progress{t.fence, fraction, message}
	t.session.mu.Unlock()
	t.session.say()
}

func (s *session) consents(ctx context.Context, t *Task, late time.Time) bool {
	s.mu.Lock()
	t.asking = true
	s.mu.Unlock()
	s.say()
	defer func() { s.mu.Lock(); t.asking = false; s.mu.Unlock() }()
	select {
	case granted := <-t.granted:
		return granted
	case <-ctx.Done():
	case <-time.After(time.Until(late)):
	}
	return false
}

func (s *session) mayStart(late time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	return s.drains.IsZero() && now.Before(s.trusted) && now.Before(late)
}

func (s *session) report(t *Task, became *report) {
	became.fence = t.fence
	s.mu.Lock()
	t.report = became
	s.mu.Unlock()
	s.say()
}

// beat renews the lease, whatever the handlers do: goroutines do not block each other.
func (s *session) beat() {
	for s.end.Err() == nil {
		sleep(s.end, seconds(s.LeaseSeconds/5))
		asked := time.Now()
		err := s.call(s.end, "POST", s.url+"/beat", map[string]any{}, nil, seconds(s.LeaseSeconds/4))
		if isGone(err) {
			s.lose(err)
		} else if err == nil {
			s.renewed(asked)
		}
	}
}

func (s *session) call(ctx context.Context, method, url string, body, into any, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(content))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if s.o.Key != "" {
		request.Header.Set("Authorization", "Bearer "+s.o.Key)
	}
	if s.Secret != "" {
		request.Header.Set("gnomon-session-secret", s.Secret)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		var problem struct{ Title, Detail string }
		_ = json.Unmarshal(text, &problem) // or a proxy's page
		return &refused{response.StatusCode, problem.Title + ": " + problem.Detail}
	}
	if into == nil || len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, into)
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// pause grows with failures, with jitter.
func pause(failures int) time.Duration {
	longest := min(5*time.Second, 100*time.Millisecond<<min(failures, 10))
	return longest/2 + time.Duration(rand.Int63n(int64(longest/2)+1))
}

func sleep(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
}
