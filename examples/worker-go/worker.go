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
	"slices"
	"strings"
	"time"
)

// Handler runs the tasks of one type; what it returns is the task's result. The context ends when the
// task is cancelled or its time is up, and with the session.
type Handler func(ctx context.Context, task *Task) (any, error)

// Never fails a task that is not to be tried again.
type Never struct{ error }

// Options of a worker.
type Options struct {
	URL, Key, Name string
	Slots          int
	Drain          time.Duration
	Handlers       map[string]Handler
}

type object map[string]any

type claim struct {
	TaskID string `json:"task_id"`
	Fence  int64  `json:"fence"`
}

// Task is a delivery, and what is to be said of it.
type Task struct {
	claim
	TaskType     string  `json:"task_type"`
	Timeout      float64 `json:"timeout_seconds"`
	StartWithin  float64 `json:"start_within_seconds"`
	Attempt      int
	Payload      json.RawMessage
	Asks         bool   // whether it may begin
	Granted      bool   // where it is named in an answer: what to that,
	Reason       string // and why it is to end
	session      *session
	ctx          context.Context
	stop         context.CancelCauseFunc
	latest       time.Time
	decided      bool // whether it begins
	report, note object
}

type answer struct {
	Epoch, Command                          string
	Deliveries, Acknowledged, Begun, Cancel []*Task
}

// session is changed by one goroutine alone, which does what comes by `events`.
type session struct {
	ID      string  `json:"session_id"`
	Secret  string  `json:"secret"`
	Epoch   string  `json:"epoch"`
	Lease   float64 `json:"lease_seconds"`
	Beat    float64 `json:"beat_seconds"`
	Poll    float64 `json:"poll_seconds"`
	o       Options
	events  chan func()
	end     context.Context
	lose    context.CancelCauseFunc
	held    map[claim]*Task
	seq     int
	fails   int       // polls in a row
	polling bool      // or pausing after one that failed
	urgent  bool      // it is answered soon: what comes up meanwhile gathers for the next
	news    bool      // there is something to say
	trusted time.Time // later it starts nothing
	drains  time.Time // until when; zero: it does not drain
}

var errLate = errors.New("did not end in time")

// Run serves until ctx ends; then it ends what runs, reports it, and leaves.
func Run(ctx context.Context, o Options) error {
	names := []string{}
	for name := range o.Handlers {
		names = append(names, name)
	}
	body := object{"name": o.Name, "handlers": names, "slots": o.Slots, "client": "gnomon-example-go/1"}
	for first, failures := true, 0; ctx.Err() == nil; failures++ {
		s := &session{o: o, held: map[claim]*Task{}, events: make(chan func()), end: ctx, trusted: time.Now()}
		status, err := s.call("POST", "", body, s, 10)
		if err == nil {
			log.Printf("worker started at %s as %s", o.URL, o.Name)
			first, failures = false, 0
			if err = s.serve(ctx); err == nil {
				return nil
			}
		} else if first && slices.Contains([]int{401, 403, 404, 422}, status) {
			return err // the key or the options are wrong
		}
		log.Printf("opening a new session: %v", err)
		time.Sleep(pause(failures))
	}
	return nil
}

// serve polls until the session is lost, which is an error, or has drained.
func (s *session) serve(ctx context.Context) error {
	s.end, s.lose = context.WithCancelCause(context.Background())
	defer s.lose(errors.New("the session has ended"))
	s.renewed(s.trusted, s.Lease)
	context.AfterFunc(ctx, func() { s.do(s.drain) })
	go s.beat()
	for s.end.Err() == nil {
		// A newer poll voids one that only waits, whatever that is answered.
		if !s.polling || s.news && !s.urgent {
			if !s.drains.IsZero() && (len(s.held) == 0 || time.Now().After(s.drains)) {
				s.call("DELETE", "/"+s.ID, nil, nil, 10)
				return nil
			}
			s.poll()
		}
		(<-s.events)()
	}
	return context.Cause(s.end)
}

// do has it done by the goroutine of the session.
func (s *session) do(what func()) {
	select {
	case s.events <- what:
	case <-s.end.Done():
	}
}

func (s *session) drain() {
	if s.news = true; s.drains.IsZero() {
		s.drains = time.Now().Add(s.o.Drain)
	}
}

func (s *session) renewed(asked time.Time, lease float64) {
	s.trusted = asked.Add(seconds(min(lease, s.Lease) * 0.8)) // a fifth less than the gateway gives
}

func (s *session) poll() {
	s.seq++
	s.polling, s.news = true, false
	number, body, asked := s.seq, s.message(), time.Now()
	go func() {
		var said answer
		status, err := s.call("POST", "/"+s.ID+"/poll", body, &said, s.Poll+10)
		s.do(func() {
			if number != s.seq {
				return
			}
			again := time.Duration(0)
			if err != nil {
				s.failed(status, err)
				again = pause(s.fails)
				s.fails++
			} else if s.fails = 0; !s.take(&said) && time.Since(asked) < 50*time.Millisecond {
				again = 100 * time.Millisecond // it did not wait
			}
			s.urgent = true
			time.AfterFunc(again, func() { s.do(func() { s.polling = false }) })
		})
	}()
}

func (s *session) failed(status int, err error) {
	log.Printf("the gateway: %v", err)
	if status == 404 || status == 410 {
		s.lose(err)
	}
}

// message is all that is to be said: the same again until it is answered.
func (s *session) message() object {
	const most = 1000 // of each
	held, reports, begin, notes := []claim{}, []object{}, []claim{}, []object{}
	for of, task := range s.held {
		held = append(held, of)
		if task.report != nil && len(reports) < most {
			reports = append(reports, task.report)
		} else if task.Asks && !task.decided && len(begin) < most {
			begin = append(begin, of)
		} else if task.note != nil && len(notes) < most {
			notes = append(notes, task.note)
		}
	}
	slots := max(0, s.o.Slots-len(held))
	if !s.drains.IsZero() || time.Now().After(s.trusted) {
		slots = 0
	}
	s.urgent = len(reports)+len(begin) > 0
	return object{
		"sequence": s.seq, "epoch": s.Epoch, "slots": slots, "wait_seconds": s.Poll,
		"held": held, "reports": reports, "begin": begin, "progress": notes,
	}
}

// take does what an answer says; it gives whether that is anything new.
func (s *session) take(said *answer) bool {
	news := len(said.Acknowledged)+len(said.Begun)+len(said.Deliveries) > 0 || said.Epoch != s.Epoch
	s.Epoch = said.Epoch
	for _, each := range said.Acknowledged {
		delete(s.held, each.claim)
	}
	for _, each := range said.Begun {
		if task := s.held[each.claim]; task != nil {
			task.begin(each.Granted)
		}
	}
	for _, each := range said.Cancel {
		if task := s.held[each.claim]; task != nil {
			task.stop(errors.New(each.Reason))
		}
	}
	for _, task := range said.Deliveries {
		if s.held[task.claim] == nil {
			task.delivered(s)
		}
	}
	if said.Command == "drain" {
		s.drain()
	}
	return news
}

func (t *Task) delivered(s *session) {
	s.held[t.claim], t.session = t, s
	t.ctx, t.stop = context.WithCancelCause(s.end)
	t.latest = time.Now().Add(seconds(t.StartWithin))
	if t.Asks {
		s.news = true
		time.AfterFunc(seconds(t.StartWithin), func() { s.do(func() { t.begin(false) }) })
	} else {
		t.begin(true)
	}
}

// begin starts it, or gives it back, once.
func (t *Task) begin(granted bool) {
	s, now := t.session, time.Now()
	if t.decided {
		return
	}
	t.decided = true
	if granted && now.Before(t.latest) && now.Before(s.trusted) && s.drains.IsZero() && t.ctx.Err() == nil {
		go t.run()
	} else {
		t.became(object{"outcome": "released"})
	}
}

func (t *Task) run() {
	ctx, cancel := context.WithTimeoutCause(t.ctx, seconds(t.Timeout), errLate)
	defer cancel()
	started, ended := time.Now(), make(chan object, 1)
	go func() { ended <- t.call(ctx) }()
	var report object
	select {
	case report = <-ended:
	case <-ctx.Done(): // a handler that goes on is left alone
		report = failure(ctx, ctx.Err())
	}
	report["started_at"], report["finished_at"] = started.UTC(), time.Now().UTC()
	t.session.do(func() { t.became(report) })
}

func (t *Task) became(report object) {
	defer t.stop(nil)
	report["task_id"], report["fence"] = t.TaskID, t.Fence
	t.report, t.session.news = report, true
}

func (t *Task) call(ctx context.Context) (report object) {
	defer func() {
		if broken := recover(); broken != nil {
			report = failure(ctx, fmt.Errorf("panic: %v", broken))
		}
	}()
	result, err := t.session.o.Handlers[t.TaskType](ctx, t)
	if err != nil {
		return failure(ctx, err)
	}
	content, err := json.Marshal(result)
	if err != nil {
		return failure(ctx, Never{err})
	}
	return object{"outcome": "succeeded", "result": json.RawMessage(content)}
}

func failure(ctx context.Context, err error) object {
	switch cause := context.Cause(ctx); cause {
	case nil:
		return object{"outcome": "failed", "error": err.Error(), "retryable": !errors.As(err, &Never{})}
	case errLate:
		return object{"outcome": "timed_out", "error": cause.Error()}
	default:
		return object{"outcome": "cancelled", "error": cause.Error()}
	}
}

// Progress says how far the work has come, from 0 to 1.
func (t *Task) Progress(fraction float64, message string) {
	note := object{"task_id": t.TaskID, "fence": t.Fence, "fraction": fraction, "message": message}
	t.session.do(func() { t.note, t.session.news = note, true })
}

// beat renews the lease, whatever the handlers do: goroutines do not block each other.
func (s *session) beat() {
	for wait := s.Beat; s.end.Err() == nil; {
		time.Sleep(seconds(wait))
		asked := time.Now()
		var answer struct {
			Lease float64 `json:"lease_seconds"`
		}
		status, err := s.call("POST", "/"+s.ID+"/beat", object{}, &answer, s.Lease/4)
		wait = s.Beat
		if err != nil {
			wait = s.Beat / 3 // another gateway may be able to
		}
		s.do(func() {
			if err != nil {
				s.failed(status, err)
			} else {
				s.renewed(asked, answer.Lease)
			}
		})
	}
}

func (s *session) call(method, path string, body, into any, limit float64) (int, error) {
	ctx, cancel := context.WithTimeout(s.end, seconds(limit))
	defer cancel()
	content, _ := json.Marshal(body)
	url := strings.TrimRight(s.o.URL, "/") + "/api/v1/worker-sessions" + path
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(content))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("gnomon-session-secret", s.Secret)
	if s.o.Key != "" {
		request.Header.Set("Authorization", "Bearer "+s.o.Key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 32<<20))
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%d: %.300s", response.StatusCode, text)
	} else if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	return response.StatusCode, err
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// pause is longer with each failure, with jitter.
func pause(failures int) time.Duration {
	longest := min(5*time.Second, 100*time.Millisecond<<min(failures, 6))
	return longest/2 + time.Duration(rand.Int63n(int64(longest/2)+1))
}
