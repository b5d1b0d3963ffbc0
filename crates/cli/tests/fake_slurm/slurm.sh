#!/bin/sh
# A fake of the Slurm commands that Doorbell uses, selected by the name of this script. Tasks run when squeue is
# called. FAKE_SLURM is the path of a folder with state and control files:
#   calls            the words of each sbatch
#   refuse           error text with which sbatch rejects a job
#   array_max        maximum number of tasks in an array
#   slow             duration of sbatch in seconds
#   hold             if it exists, tasks stay pending
#   fate.JOB.TASK    final state of the task, which is not run; VANISHED: it disappears from the queue
#   says.JOB.TASK    its output before that
#   accounts         output of sacct
set -eu
cd "$FAKE_SLURM"
command=${0##*/}
case "${1:-}" in --version) echo "slurm 0.0"; exit 0 ;; esac
case $command in
scontrol)
    echo "MaxArraySize            = $(cat array_max 2> /dev/null || echo 1001)" ;;
sinfo)
    printf 'short\nlong\n' ;;
sacct)
    [ -e accounts ] || { echo "sacct: error: Slurm accounting storage is disabled" >&2; exit 1; }
    cat accounts ;;
sbatch)
    printf '%s\n' "$*" >> calls
    [ ! -e slow ] || sleep "$(cat slow)"
    if [ -e refuse ]; then
        echo "sbatch: error: $(cat refuse)" >&2
        exit 1
    fi
    for word; do
        case $word in
        --job-name=*) name=${word#*=} ;;
        --array=*) array=${word#*=} ;;
        --output=*) log=${word#*=} ;;
        esac
        script=$word
    done
    last=${array%\%*}
    last=${last#0-}
    if [ -e taken_max ] && [ "$last" -ge "$(cat taken_max)" ]; then
        echo "sbatch: error: Batch job submission failed: Invalid job array specification" >&2
        exit 1
    fi
    job=$(($(cat job 2> /dev/null || echo 0) + 1))
    echo $job > job
    mkdir "job.$job"
    echo "$name" > "job.$job/name"
    echo "$log" > "job.$job/log"
    cp "$script" "job.$job/script"
    for task in $(seq 0 "$last"); do echo PENDING > "job.$job/task.$task"; done
    echo "$job" ;;
squeue)
    for word; do
        case $word in --name=*) names=,${word#*=}, ;; esac
    done
    if [ -e unanswered ]; then
        rm unanswered
        echo "squeue: error: Unable to contact slurm controller (connect failure)" >&2
        exit 1
    fi
    for folder in job.*; do
        [ -e "$folder/name" ] || continue
        name=$(cat "$folder/name")
        case $names in *,$name,*) ;; *) continue ;; esac
        job=${folder#job.}
        for file in "$folder"/task.*; do
            task=${file##*.}
            if [ "$(cat "$file")" = PENDING ] && [ ! -e hold ]; then
                log=$(sed "s/%a/$task/" "$folder/log")
                if [ -e "fate.$job.$task" ]; then
                    [ ! -e "says.$job.$task" ] || cat "says.$job.$task" >> "$log"
                    cp "fate.$job.$task" "$file"
                elif (cd "$FAKE_HOME" && SLURM_ARRAY_TASK_ID=$task sh "$FAKE_SLURM/$folder/script") >> "$log" 2>&1; then
                    echo COMPLETED > "$file"
                else
                    echo FAILED > "$file"
                fi
            fi
            state=$(cat "$file")
            [ "$state" = VANISHED ] || echo "${job}_$task|$state|$name|None"
        done
    done ;;
esac
